import dns from 'node:dns';
import { syncBuiltinESMExports } from 'node:module';
import net from 'node:net';

/*
 * The network, as far as tests have one: loopback, and names that tests put there. No connection leaves this machine,
 * whoever imports this. Names under .invalid, .test and .example exist only if a test makes them exist; otherwise they
 * fail like names that nobody has, without asking a name server.
 */

type LookupCallback = (error: NodeJS.ErrnoException | null, address: unknown, family?: number) => void;

const attempts: string[] = [];

/** What was tried beyond loopback since the last call, and is thereby forgiven. */
export function takeAttempts(): string[] {
  return attempts.splice(0);
}

const routes = new Map<string, number>();

/** Puts a name on the network: `NAME:443` is the server on this port of 127.0.0.1 from now on, in this process. */
export function putName(name: string, port: number): void {
  routes.set(name, port);
}

export function removeName(name: string): void {
  routes.delete(name);
}

const NAMES_VARIABLE = 'LARDER_TEST_NAMES';
for (const [name, port] of JSON.parse(process.env[NAMES_VARIABLE] ?? '[]') as [string, number][]) putName(name, port);

/** For a process that is started with `--import` of this file: the names of this one, in the variable it reads. */
export function namesForChild(): Record<string, string> {
  return { [NAMES_VARIABLE]: JSON.stringify([...routes]) };
}

const loopback = new net.BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

export function isLoopback(address: string): boolean {
  return loopback.check(address, net.isIPv6(address) ? 'ipv6' : 'ipv4');
}

function isLocalName(name: string): boolean {
  return name === 'localhost' || (net.isIP(name) !== 0 && isLoopback(name));
}

function refused(what: string): NodeJS.ErrnoException {
  attempts.push(what);
  return Object.assign(new Error(`tests stay on loopback, and this goes to ${what}`), { code: 'EBEYONDLOOPBACK' });
}

/** What a look-up of this name fails with; `undefined` if it may go on. */
function lookupFailure(name: string): NodeJS.ErrnoException | undefined {
  // Looking an address up asks nobody; whether it may be connected to is decided when it is.
  if (isLocalName(name) || net.isIP(name) !== 0 || routes.has(name)) return undefined;
  if (/\.(invalid|test|example)\.?$/i.test(name)) {
    const error = new Error(`getaddrinfo ENOTFOUND ${name}`);
    return Object.assign(error, { code: 'ENOTFOUND', errno: -3008, syscall: 'getaddrinfo', hostname: name });
  }
  return refused(`the name ${name}`);
}

const originalLookup = dns.lookup;
const guardedLookup = (name: string, ...rest: unknown[]): void => {
  const failure = lookupFailure(name);
  const callback = rest.at(-1) as LookupCallback;
  if (failure) process.nextTick(callback, failure);
  else if (routes.has(name)) (originalLookup as (...all: unknown[]) => void)('127.0.0.1', ...rest);
  else (originalLookup as (...all: unknown[]) => void)(name, ...rest);
};
Object.assign(dns, { lookup: Object.assign(guardedLookup, originalLookup) });

const originalPromisedLookup = dns.promises.lookup;
Object.assign(dns.promises, {
  lookup: async (name: string, ...rest: unknown[]) => {
    const failure = lookupFailure(name);
    if (failure) throw failure;
    const asked = routes.has(name) ? '127.0.0.1' : name;
    return (originalPromisedLookup as (...all: unknown[]) => unknown)(asked, ...rest);
  },
});

// These ask name servers directly, whatever the name.
for (const method of ['resolve', 'resolve4', 'resolve6', 'resolveAny', 'resolveSrv', 'resolveTxt'] as const) {
  Object.assign(dns, {
    [method]: (name: string, ...rest: unknown[]) =>
      process.nextTick(rest.at(-1) as LookupCallback, lookupFailure(name) ?? refused(`name servers for ${name}`)),
  });
  Object.assign(dns.promises, {
    [method]: async (name: string) => {
      throw lookupFailure(name) ?? refused(`name servers for ${name}`);
    },
  });
}
syncBuiltinESMExports();

const originalConnect = net.Socket.prototype.connect;
function guardedConnect(this: net.Socket, ...args: unknown[]): net.Socket {
  // net.connect() hands over an array of [options, callback]; everything else is what the documentation lists.
  const given = Array.isArray(args[0]) ? (args[0] as unknown[])[0] : args[0];
  const options = (
    typeof given === 'object' && given !== null ? given : { port: given, host: args[1] }
  ) as net.TcpNetConnectOpts & { path?: string };
  const toPipe = options.path !== undefined || options.port === undefined || Number.isNaN(Number(options.port));
  if (toPipe && options.host === undefined) return call(this, args);

  const host = typeof options.host === 'string' ? options.host : 'localhost';
  if (net.isIP(host) !== 0 && !isLoopback(host)) {
    const error = refused(`${host}:${options.port}`);
    process.nextTick(() => this.destroy(error));
    return this;
  }
  const port = Number(options.port) === 443 ? (routes.get(host) ?? options.port) : options.port;
  const { lookup } = options;
  if (lookup === undefined && port === options.port) return call(this, args);

  const guarded = { ...options, port, ...(lookup ? { lookup: checked(lookup) } : {}) };
  if (Array.isArray(args[0])) (args[0] as unknown[])[0] = guarded;
  else if (typeof args[0] === 'object') args[0] = guarded;
  else return call(this, [guarded, ...args.slice(2)]);
  return call(this, args);
}
net.Socket.prototype.connect = guardedConnect as typeof originalConnect;

/** A look-up of the code's own: what it finds is checked as well. */
function checked(lookup: net.LookupFunction): net.LookupFunction {
  return (name, details, callback) =>
    lookup(name, details, (error, found, family) => {
      const addresses = Array.isArray(found) ? found.map(({ address }) => address) : [found];
      const beyond = error ? undefined : addresses.find((address) => !isLoopback(address));
      callback(beyond === undefined ? error : refused(`${name} (${beyond})`), found, family);
    });
}

function call(socket: net.Socket, args: unknown[]): net.Socket {
  return (originalConnect as (...all: unknown[]) => net.Socket).apply(socket, args);
}
