import { createHash, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import type { ProviderPattern } from '../address/provider-pattern.ts';
import { Forbidden, TooManyAttempts, Unauthenticated } from '../errors.ts';
import type { RequestOrigin } from '../request-origin.ts';
import { credentialsHost, tokenVariable } from './cli-snippets.ts';
import { FailedAttempts } from './failed-attempts.ts';
import type { SealedBearers } from './sealed-bearers.ts';

/** Before a sealed token in the subject of a link. */
const FORWARDED = 'forwarded:';

export type Role = 'read' | 'admin';

/** A token that opens doors, as far as it has to be known to recognise it. */
export interface KnownToken {
  readonly name: string;
  /** SHA-256 of the token. */
  readonly digest: Buffer;
  readonly roles: readonly Role[];
  /** `undefined`: everything. */
  readonly addresses: readonly ProviderPattern[] | undefined;
}

/** Whoever asks, and what is open to them. */
export class Client {
  /** That of the token; `anonymous` without one. */
  readonly name: string;
  readonly roles: readonly Role[];
  readonly isAnonymous: boolean;
  /** Links are made out to it: `token:NAME`, or `anonymous`. */
  readonly subject: string;
  /** The request that this is about: of each there is one for each request. */
  origin: RequestOrigin | undefined;
  readonly #mayRead: (address: MirroredAddress) => boolean;
  readonly #isConfined: boolean;
  readonly #addresses: readonly ProviderPattern[] | undefined;
  readonly #bearer: string | undefined;
  readonly #digest: Buffer | undefined;

  constructor(options: {
    token?: KnownToken | undefined;
    roles: readonly Role[];
    mayRead: (address: MirroredAddress) => boolean;
    /** Whether there is something that it may not read. */
    isConfined?: boolean;
    bearer?: string | undefined;
  }) {
    this.name = options.token?.name ?? 'anonymous';
    this.roles = options.roles;
    this.isAnonymous = options.token === undefined;
    this.subject = options.token ? `token:${options.token.name}` : 'anonymous';
    this.#mayRead = options.mayRead;
    this.#isConfined = options.isConfined === true;
    this.#addresses = options.token?.addresses;
    this.#bearer = options.bearer;
    this.#digest = options.token?.digest;
  }

  mayRead(address: MirroredAddress): boolean {
    return this.roles.includes('read') && this.#mayRead(address);
  }

  /** Whether there is nothing that it may not read. */
  get mayReadAll(): boolean {
    return this.roles.includes('read') && !this.#isConfined;
  }

  /** Unlike reading, this is never open to everybody: the addresses of a token always hold. */
  mayAdminister(address: MirroredAddress): boolean {
    return this.roles.includes('admin') && (this.#addresses?.some((pattern) => pattern.matches(address)) ?? true);
  }

  /** Whether there is nothing that it may not administer. */
  get mayAdministerAll(): boolean {
    return this.roles.includes('admin') && this.#addresses === undefined;
  }

  /** Another one when the token of this name is another one; `undefined` without a token. Tells nothing of it. */
  get fingerprint(): string | undefined {
    return this.#digest && createHash('sha256').update('fingerprint:').update(this.#digest).digest('base64url');
  }

  /** A token that is none of Larder's own, as it was presented. Hidden from loggers, and never to be shown. */
  get bearer(): string | undefined {
    return this.#bearer;
  }

  toString(): string {
    return this.name;
  }
}

/**
 * Who asks: nobody in particular, or the holder of a configured token, presented as a bearer token or as the password
 * of Basic (what netrc files and URLs with user information lead to; the user's name is of no interest).
 *
 * Clients send the token they have for the host in an address, at some doors one that was never meant for Larder.
 * Where anonymous clients may read, such a token is no reason to refuse them.
 */
export class Authenticator {
  readonly #anonymousRoles: readonly Role[];
  readonly #tokens: () => Promise<readonly KnownToken[]>;
  readonly #publicUrl: string | undefined;
  readonly #attempts: FailedAttempts;
  readonly #sealed: SealedBearers | undefined;

  constructor(deps: {
    anonymous: 'read' | 'none';
    /** Those of this moment. */
    tokens: () => Promise<readonly KnownToken[]>;
    publicUrl?: string | undefined;
    attempts?: FailedAttempts;
    /** Needed where upstreams are asked with the tokens of clients. */
    sealed?: SealedBearers | undefined;
  }) {
    this.#anonymousRoles = deps.anonymous === 'read' ? ['read'] : [];
    this.#tokens = deps.tokens;
    this.#publicUrl = deps.publicUrl;
    this.#attempts = deps.attempts ?? new FailedAttempts();
    this.#sealed = deps.sealed;
  }

  /** Whether reading takes a token. */
  get isRequired(): boolean {
    return this.#anonymousRoles.length === 0;
  }

  /** Whether there is any token with this role at the moment. */
  async hasHolderOf(role: Role): Promise<boolean> {
    return (await this.#tokens()).some(({ roles }) => roles.includes(role));
  }

  /** Refuses nobody. */
  async identify(req: Pick<IncomingMessage, 'headers'>): Promise<Client> {
    const presented = presentedToken(req.headers.authorization);
    if (presented === undefined) return this.#anonymous();
    const token = matching(await this.#tokens(), presented);
    return token ? this.#holderOf(token) : this.#anonymous(presented);
  }

  /**
   * For a door that takes a role.
   * @param hint what those should do who have no token, where that is not what clients of a mirror do
   * @throws Unauthenticated without a token that is known, TooManyAttempts when that has been tried too often
   * @throws Forbidden when the token's roles are others
   */
  demand(client: Client, role: Role, req: IncomingMessage, hint = this.#hint()): void {
    if (client.roles.includes(role)) return;
    if (!client.isAnonymous) {
      throw new Forbidden(`the token named ${client.name} does not have the role ${role}`, {
        hint: 'the operator decides with access.tokens',
      });
    }
    // Only what could be a guess counts: who presents nothing learns nothing.
    if (client.bearer !== undefined && this.#attempts.add(req.socket.remoteAddress ?? '')) {
      throw new TooManyAttempts('too many requests with a token that is not known here', { hint });
    }
    const what = client.bearer === undefined ? 'a token is needed here' : 'the token is not known here';
    throw new Unauthenticated(what, { hint });
  }

  /**
   * Whom links in an answer of a forwarding upstream are made out to: the holder of the token that it was asked with.
   * @throws Forbidden when the token is too long for a link
   */
  forwardedSubject(client: Client): string {
    if (client.bearer === undefined) return client.subject;
    const sealed = this.#sealed?.seal(client.bearer);
    if (sealed !== undefined) return `${FORWARDED}${sealed}`;
    throw new Forbidden('the token is too long to be passed on', { hint: 'tokens may have up to 3000 characters' });
  }

  /** Whoever a link was made out to, as long as the configuration still has them. */
  async clientOf(subject: string): Promise<Client | undefined> {
    if (subject.startsWith(FORWARDED)) {
      const bearer = await this.#sealed?.open(subject.slice(FORWARDED.length));
      return bearer === undefined ? undefined : this.#anonymous(bearer);
    }
    if (subject === 'anonymous') return this.isRequired ? undefined : this.#anonymous();
    const token = (await this.#tokens()).find(({ name }) => subject === `token:${name}`);
    return token && this.#holderOf(token);
  }

  #anonymous(bearer?: string): Client {
    return new Client({ roles: this.#anonymousRoles, mayRead: () => true, bearer });
  }

  #holderOf(token: KnownToken): Client {
    // What is open to everybody cannot be closed to those who show a token.
    if (!this.isRequired)
      return new Client({ token, roles: [...new Set([...token.roles, ...this.#anonymousRoles])], mayRead: () => true });
    const { addresses } = token;
    const mayRead = (address: MirroredAddress) => addresses?.some((pattern) => pattern.matches(address)) ?? true;
    return new Client({ token, roles: token.roles, mayRead, isConfined: addresses !== undefined });
  }

  #hint(): string {
    const host = this.#publicUrl === undefined ? undefined : credentialsHost(this.#publicUrl);
    return (
      `configure it for the host of the mirror's URL (with its port, unless that is 443): ` +
      `credentials "${host ?? 'HOST[:PORT]'}" { token = "…" } in the CLI configuration, or the variable ` +
      `${host === undefined ? 'TF_TOKEN_… named for it' : tokenVariable(host)}`
    );
  }
}

/** @throws Forbidden when the client may not have it */
export function demandRead(client: Client, address: MirroredAddress): void {
  if (client.mayRead(address)) return;
  throw new Forbidden(`the token named ${client.name} is not for ${address}`, {
    hint: 'the operator decides with the addresses of access.tokens',
  });
}

/** @throws Forbidden when the client may have some addresses only */
export function demandReadAll(client: Client): void {
  if (client.mayReadAll) return;
  throw new Forbidden(`the token named ${client.name} is for some addresses only, and this is about none of them`, {
    hint: 'the operator decides with the addresses of access.tokens',
  });
}

/** Compares with all of them, whichever matches: how long it takes tells nothing. */
function matching(tokens: readonly KnownToken[], presented: string): KnownToken | undefined {
  const digest = createHash('sha256').update(presented).digest();
  let found: KnownToken | undefined;
  for (const token of tokens) {
    if (timingSafeEqual(token.digest, digest)) found = token;
  }
  return found;
}

/** Clients with an empty variable send a scheme with nothing behind it: that is none. */
function presentedToken(authorization: string | undefined): string | undefined {
  const [, scheme = '', value = ''] = /^(bearer|basic) +(\S+) *$/i.exec(authorization ?? '') ?? [];
  if (scheme.toLowerCase() === 'bearer') return value;
  const userAndPassword = Buffer.from(value, 'base64').toString();
  const colon = userAndPassword.indexOf(':');
  return (colon === -1 ? '' : userAndPassword.slice(colon + 1)) || undefined;
}
