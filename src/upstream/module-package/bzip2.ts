import { setImmediate as turn } from 'node:timers/promises';
import type { ByteReader } from './byte-reader.ts';
import { BitReader, CodeTable, MAX_CODE_BITS } from './bzip2-bits.ts';

const BLOCK_UNIT_BYTES = 100_000;
const SYMBOLS_PER_SELECTOR = 50;
const RUN_A = 0;
const RUN_B = 1;
const BLOCK_START = 0x314159265359;
const STREAM_END = 0x177245385090;
/** Everything in a block but its symbols. */
const MAX_PREAMBLE_BYTES = 64 * 1024;
/** A block takes a good part of a second: after so many groups of symbols, a few milliseconds, others have a turn. */
const GROUPS_PER_TURN = 1_000;
/** Bytes that are handed on at once: one block may unpack to 46 MB. */
const OUTPUT_BYTES = 64 * 1024;
/** After so many equal bytes a count follows. */
const RUN_LENGTH = 4;
const CRC_POLYNOMIAL = 0x04c11db7;
const CRC_TABLE = crcTable();

/**
 * Unpacks bzip2, also several streams after one another, in pieces of bounded size, each made when it is asked for.
 * Checksums are compared.
 *
 * @throws Error for what is damaged or cut short; errors of `reader` pass
 */
export async function* unpackBzip2(reader: ByteReader): AsyncGenerator<Uint8Array> {
  const bits = new BitReader(reader);
  do {
    await bits.fill(4);
    const magic = bits.read(24);
    const level = bits.read(8) - 0x30;
    if (magic !== 0x425a68 || level < 1 || level > 9) throw new Error('it is not bzip2');
    yield* unpackStream(bits, level * BLOCK_UNIT_BYTES);
    bits.alignToByte();
    await bits.fill(4);
  } while (!bits.isAtEnd);
}

async function* unpackStream(bits: BitReader, blockBytes: number): AsyncGenerator<Uint8Array> {
  const block = new Int32Array(blockBytes);
  let combined = 0;
  for (;;) {
    await bits.fill((blockBytes * MAX_CODE_BITS) / 8 + MAX_PREAMBLE_BYTES);
    const marker = bits.read(24) * 2 ** 24 + bits.read(24);
    const checksum = ((bits.read(16) << 16) | bits.read(16)) >>> 0;
    if (marker === STREAM_END) {
      if (checksum !== combined) throw new Error('its checksum does not match');
      return;
    }
    if (marker !== BLOCK_START) throw damaged();
    const { start, length } = await readBlock(bits, block);
    let crc = 0xffffffff;
    for (const piece of expanded(block, start, length)) {
      crc = crcOf(piece, crc);
      yield piece;
    }
    crc = ~crc >>> 0;
    if (crc !== checksum) throw new Error('its checksum does not match');
    combined = (((combined << 1) | (combined >>> 31)) ^ crc) >>> 0;
  }
}

/**
 * Undoes the Huffman coding and the move-to-front coding. Afterwards each element of `block` holds a byte, and above it
 * the place of the next one: the Burrows-Wheeler transform, ready to be walked from `start`.
 */
async function readBlock(bits: BitReader, block: Int32Array): Promise<{ start: number; length: number }> {
  // A bit that only the very first versions set.
  if (bits.read(1) !== 0) throw damaged();
  const origin = bits.read(24);
  const alphabet = readAlphabet(bits);
  const tableCount = bits.read(3);
  if (alphabet.length === 0 || tableCount < 2 || tableCount > 6) throw damaged();
  const selectors = readSelectors(bits, tableCount);
  const endOfBlock = alphabet.length + 1;
  const tables = Array.from({ length: tableCount }, () => readTable(bits, endOfBlock + 1));

  const counts = new Int32Array(256);
  let length = 0;
  let run = 0;
  let runUnit = 1;
  const put = (byte: number, times: number) => {
    if (length + times > block.length) throw damaged();
    block.fill(byte, length, length + times);
    length += times;
    counts[byte] = (counts[byte] as number) + times;
  };
  for (const [index, selector] of selectors.entries()) {
    if (index % GROUPS_PER_TURN === 0) await turn();
    const table = tables[selector] as CodeTable;
    for (let left = SYMBOLS_PER_SELECTOR; left > 0; left--) {
      const symbol = table.decode(bits);
      if (symbol === RUN_A || symbol === RUN_B) {
        run += symbol === RUN_A ? runUnit : 2 * runUnit;
        runUnit *= 2;
        if (run > block.length) throw damaged();
        continue;
      }
      if (run > 0) {
        put(alphabet[0] as number, run);
        run = 0;
        runUnit = 1;
      }
      if (symbol === endOfBlock) {
        if (origin >= length) throw damaged();
        return { start: linked(block, counts, length, origin), length };
      }
      const byte = alphabet[symbol - 1] as number;
      alphabet.copyWithin(1, 0, symbol - 1);
      alphabet[0] = byte;
      put(byte, 1);
    }
  }
  throw damaged();
}

/** The bytes that occur, in order: a map of sixteen groups, and of each that is there a map of sixteen bytes. */
function readAlphabet(bits: BitReader): Uint8Array {
  const bytes: number[] = [];
  const groups = bits.read(16);
  for (let group = 0; group < 16; group++) {
    if ((groups & (0x8000 >>> group)) === 0) continue;
    const members = bits.read(16);
    for (let member = 0; member < 16; member++) {
      if ((members & (0x8000 >>> member)) !== 0) bytes.push(group * 16 + member);
    }
  }
  return Uint8Array.from(bytes);
}

/** Which table each group of symbols is coded with; themselves coded move-to-front. */
function readSelectors(bits: BitReader, tableCount: number): Uint8Array {
  const selectors = new Uint8Array(bits.read(15));
  const order = Uint8Array.from({ length: tableCount }, (_, table) => table);
  for (let index = 0; index < selectors.length; index++) {
    let place = 0;
    while (bits.read(1) === 1) if (++place >= tableCount) throw damaged();
    const table = order[place] as number;
    order.copyWithin(1, 0, place);
    order[0] = table;
    selectors[index] = table;
  }
  return selectors;
}

function readTable(bits: BitReader, symbolCount: number): CodeTable {
  const lengths = new Uint8Array(symbolCount);
  let length = bits.read(5);
  for (let symbol = 0; symbol < symbolCount; symbol++) {
    for (;;) {
      if (length < 1 || length > MAX_CODE_BITS) throw damaged();
      if (bits.read(1) === 0) break;
      length += bits.read(1) === 0 ? 1 : -1;
    }
    lengths[symbol] = length;
  }
  return new CodeTable(lengths);
}

/** Returns the first element. */
function linked(block: Int32Array, counts: Int32Array, length: number, origin: number): number {
  const places = new Int32Array(256);
  for (let byte = 1; byte < 256; byte++) places[byte] = (places[byte - 1] as number) + (counts[byte - 1] as number);
  for (let index = 0; index < length; index++) {
    const byte = (block[index] as number) & 0xff;
    const place = places[byte] as number;
    places[byte] = place + 1;
    block[place] = (block[place] as number) | (index << 8);
  }
  return (block[origin] as number) >>> 8;
}

/** Walks the transform, and undoes the run-length coding that comes before it. */
function* expanded(block: Int32Array, start: number, length: number): Generator<Uint8Array> {
  let output = new Uint8Array(OUTPUT_BYTES);
  let filled = 0;
  let next = start;
  let previous = -1;
  let equal = 0;
  for (let index = 0; index < length; index++) {
    const element = block[next] as number;
    const byte = element & 0xff;
    next = element >>> 8;
    const times = equal === RUN_LENGTH ? byte : 1;
    if (filled + times > OUTPUT_BYTES) {
      yield output.subarray(0, filled);
      output = new Uint8Array(OUTPUT_BYTES);
      filled = 0;
    }
    if (equal === RUN_LENGTH) {
      output.fill(previous, filled, filled + times);
      equal = 0;
      previous = -1;
    } else {
      output[filled] = byte;
      equal = byte === previous ? equal + 1 : 1;
      previous = byte;
    }
    filled += times;
  }
  if (filled > 0) yield output.subarray(0, filled);
}

function crcOf(bytes: Uint8Array, crc: number): number {
  let value = crc;
  for (const byte of bytes) value = (value << 8) ^ (CRC_TABLE[(value >>> 24) ^ byte] as number);
  return value;
}

/** Not the one of zip and gzip: the highest bit comes first. */
function crcTable(): Int32Array {
  return Int32Array.from({ length: 256 }, (_, byte) => {
    let value = byte << 24;
    for (let bit = 0; bit < 8; bit++) value = value < 0 ? (value << 1) ^ CRC_POLYNOMIAL : value << 1;
    return value;
  });
}

function damaged(): Error {
  return new Error('it is damaged');
}
