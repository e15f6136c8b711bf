import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** A connection that was just made may have a request on its way: when draining it gets this long for it, in milliseconds. */
const FIRST_REQUEST_MS = 1_000;
/** So often is looked, within the patience for clients that take nothing, whether there are any. */
const LOOKS = 4;

/** What goes on on a connection. */
interface Connection {
  /** Answers that are not over. */
  underWay: number;
  /** The newest of them, which is the only one but for clients that pipeline. */
  latest: ServerResponse | undefined;
  /** There was a request. */
  isUsed: boolean;
  /** Of clients that pipeline: those that began while another one was under way. */
  queued: ServerResponse[] | undefined;
}

/**
 * The connections of a server with the answers under way on each. Thousands of requests a second go through here, so each
 * pays for two assignments: no timer of its own, and no entry in a set of all answers (the tables that such a set outgrows
 * would keep answers from being collected with the young).
 */
export class Connections {
  readonly #stallMs: number;
  readonly #open = new Map<Socket, Connection>();
  readonly #looking: NodeJS.Timeout;
  #isDraining = false;
  #isLeaving = false;

  /** @param deps.stallMs how long a client may take nothing while there is something for it, in milliseconds */
  constructor({ stallMs }: { stallMs: number }) {
    this.#stallMs = stallMs;
    this.#looking = setInterval(() => this.#watchSlow(), Math.max(1, stallMs / LOOKS)).unref();
  }

  add(socket: Socket): void {
    const connection: Connection = { underWay: 0, latest: undefined, isUsed: false, queued: undefined };
    this.#open.set(socket, connection);
    if (this.#isDraining) this.#closeUnlessUsed(socket);
    socket.once('close', () => {
      this.#open.delete(socket);
      connection.queued?.filter((res) => !res.socket).forEach(abandon);
    });
  }

  /** Before anything is done about a request. */
  track({ socket }: IncomingMessage, res: ServerResponse): void {
    const connection = this.#open.get(socket);
    if (!connection) return;
    connection.isUsed = true;
    connection.underWay += 1;
    connection.latest = res;
    if (this.#isLeaving || this.#isDraining) closeAfter(res);
    if (connection.underWay > 1) connection.queued = [...(connection.queued ?? []), res];
    res.once('close', () => {
      connection.underWay -= 1;
      if (connection.queued) connection.queued = connection.queued.filter((other) => other !== res);
      if (connection.latest === res) connection.latest = undefined;
      // Those whose headers promised to keep the connection: it has to be closed all the same.
      if (connection.underWay === 0 && this.#isDraining) socket.end();
    });
  }

  /** From now on each connection is closed after its answer. */
  leave(): void {
    this.#isLeaving = true;
  }

  /** Closes the idle ones, those without any request yet a second later, and the others after their answers. */
  drain(): void {
    this.#isDraining = true;
    for (const [socket, { underWay, latest, isUsed }] of this.#open) {
      if (latest) closeAfter(latest);
      if (!isUsed) this.#closeUnlessUsed(socket);
      else if (underWay === 0) socket.destroy();
    }
  }

  /** Breaks all of them off. */
  destroy(): void {
    for (const socket of this.#open.keys()) socket.destroy();
  }

  /** No connection is left, and none will come. */
  close(): void {
    clearInterval(this.#looking);
  }

  /**
   * Of a connection on which nothing has moved: for as long as a kept one may idle, or as clients may take nothing. While
   * we have nothing to send, for instance because upstream is slow, all is well.
   */
  dropIfStalled(socket: Socket): void {
    if (!this.#open.get(socket)?.underWay || socket.writableLength > 0) socket.destroy();
  }

  /** Sockets know best whether bytes are moving. They are asked only where bytes wait: most answers are gone at once. */
  #watchSlow(): void {
    for (const [socket, { underWay }] of this.#open) {
      const waits = underWay > 0 && socket.writableLength > 0;
      if (waits && socket.timeout !== this.#stallMs) socket.setTimeout(this.#stallMs);
    }
  }

  /** Its first request may be on its way: whoever sent it would not know whether it was carried out. */
  #closeUnlessUsed(socket: Socket): void {
    const patience = setTimeout(() => {
      if (!this.#open.get(socket)?.isUsed) socket.destroy();
    }, FIRST_REQUEST_MS);
    socket.once('close', () => clearTimeout(patience));
  }
}

/** An answer whose turn never came: node:http forgets it without a word, and whatever was opened for it would stay open. */
function abandon(res: ServerResponse): void {
  res.destroy();
  res.emit('close');
}

function closeAfter(res: ServerResponse): void {
  if (!res.headersSent) res.setHeader('Connection', 'close');
}
