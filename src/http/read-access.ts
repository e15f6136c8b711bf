import type { Request, RequestHandler, Response } from 'express';
import { Hostname } from '../address/hostname.ts';
import { type Authenticator, type Client, demandRead, demandReadAll } from './authenticate.ts';
import type { LinkedFile, Links } from './links.ts';
import { type Asked, addressOf, notesOf, originOf } from './respond.ts';

export interface ReadAccessDeps {
  readonly authenticator: Authenticator;
  /** Without them, nothing is linked to in a way that needs no token, come what may. */
  readonly links?: Links | undefined;
  /** Upstreams that are asked with the client's own token: to be let in there is theirs to decide. */
  readonly isForwarded?: ((hostname: Hostname) => boolean) | undefined;
  /** What those should do who have no token, where that is not what clients of a mirror do. */
  readonly hint?: ((hostname: Hostname | undefined) => string) | undefined;
}

/** Links of one client to files, for which it sends no token. */
export interface ClientLinks {
  /** As long as it stays the same, so do the links. */
  readonly stamp: string;
  /** Relative to where Larder's own paths begin. */
  pathFor(file: LinkedFile): string;
}

/** Who may read what, alike at all doors whose paths begin with the hostname of an upstream. */
export class ReadAccess {
  readonly #authenticator: Authenticator;
  readonly #links: Links | undefined;
  readonly #isForwarded: (hostname: Hostname) => boolean;
  readonly #hint: ReadAccessDeps['hint'];

  constructor({ authenticator, links, isForwarded = () => false, hint }: ReadAccessDeps) {
    this.#authenticator = authenticator;
    this.#links = links;
    this.#isForwarded = isForwarded;
    this.#hint = hint;
  }

  /** Comes before all routes of a door: to those who may not read, no address is right or wrong. */
  readonly authenticate: RequestHandler = async (req, res, next) => {
    const client = await this.#authenticator.identify(req);
    client.origin = originOf(res);
    const notes = notesOf(res);
    notes.client = client;
    notes.isPersonal = this.#authenticator.isRequired;
    const isAnybody = client.bearer === undefined && client.roles.includes('read');
    const hostname = isAnybody ? undefined : hostnameIn(req);
    const mayBeForwarded = client.bearer !== undefined && hostname !== undefined && this.#isForwarded(hostname);
    if (!mayBeForwarded) this.#authenticator.demand(client, 'read', req, this.#hint?.(hostname));
    next();
  };

  /** Notes what was asked for. @throws Forbidden when it is not for this client */
  admit(res: Response, asked: Asked): Client {
    const notes = notesOf(res);
    notes.asked = asked;
    const client = notes.client as Client;
    const address = addressOf(asked);
    if (client.bearer === undefined || !this.#isForwarded(address.hostname)) demandRead(client, address);
    else notes.isPersonal = true;
    return client;
  }

  /**
   * The same for what is about no address in particular: lists, search.
   * @throws Forbidden when the client may have some addresses only
   */
  admitWhole(res: Response, hostname: Hostname): Client {
    const notes = notesOf(res);
    const client = notes.client as Client;
    if (client.bearer !== undefined && this.#isForwarded(hostname)) notes.isPersonal = true;
    else demandReadAll(client);
    return client;
  }

  /**
   * `undefined` where files are open to whoever asks.
   * @param isPrivate whether upstream decides who may have them
   */
  linksFor(client: Client, isPrivate: boolean): ClientLinks | undefined {
    const links = this.#links;
    if (!links || !(this.#authenticator.isRequired || isPrivate)) return undefined;
    const subject = isPrivate ? this.#authenticator.forwardedSubject(client) : client.subject;
    return { stamp: links.stampOf(subject), pathFor: (file) => links.pathFor(file, subject) };
  }
}

/** What the path, which nobody has parsed yet, begins with, if it is a hostname. */
function hostnameIn({ path }: Request): Hostname | undefined {
  try {
    return Hostname.parse(decodeURIComponent(path.split('/')[1] ?? ''));
  } catch {
    return undefined;
  }
}
