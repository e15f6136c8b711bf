import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

export interface ReceivedEvent {
  readonly type: string;
  /** To go on after it. */
  readonly id: string | undefined;
  readonly data: unknown;
}

/**
 * Server-sent events with data of JSON. Ends with the stream, also when that breaks off; closes it.
 * @param onHeard called for every line, those included that only show that somebody is there
 */
export async function* receivedEvents(stream: Readable, onHeard: () => void = () => {}): AsyncGenerator<ReceivedEvent> {
  let fields = new Map<string, string>();
  try {
    for await (const line of createInterface({ input: stream, crlfDelay: Number.POSITIVE_INFINITY })) {
      onHeard();
      if (line !== '') {
        const [, name = '', value = ''] = /^([^:]*):? ?(.*)$/.exec(line) ?? [];
        fields.set(name, value);
        continue;
      }
      const event = eventOf(fields);
      fields = new Map();
      if (event) yield event;
    }
  } catch {
    // Whoever reads asks again from where it broke off.
  } finally {
    stream.destroy();
  }
}

function eventOf(fields: ReadonlyMap<string, string>): ReceivedEvent | undefined {
  const data = fields.get('data');
  if (data === undefined) return undefined;
  try {
    return { type: fields.get('event') ?? 'message', id: fields.get('id'), data: JSON.parse(data) };
  } catch {
    return undefined;
  }
}
