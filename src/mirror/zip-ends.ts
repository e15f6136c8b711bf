const LOCAL_HEADER = Buffer.from('PK\x03\x04', 'latin1');
const END_OF_DIRECTORY = Buffer.from('PK\x05\x06', 'latin1');
/** Bytes: the end record, and the longest comment that may follow it. */
const END_LENGTH = 22 + 0xffff;

/** Looks at both ends of a file while it passes by: what has not those of a zip can be one for nobody. */
export class ZipEnds {
  #head = Buffer.alloc(0);
  #tail = Buffer.alloc(0);

  update(chunk: Uint8Array): void {
    if (this.#head.length < LOCAL_HEADER.length) {
      this.#head = Buffer.concat([this.#head, chunk.subarray(0, LOCAL_HEADER.length)]);
    }
    const tail = chunk.length >= END_LENGTH ? Buffer.from(chunk) : Buffer.concat([this.#tail, chunk]);
    this.#tail = tail.length > END_LENGTH ? Buffer.from(tail.subarray(-END_LENGTH)) : tail;
  }

  get areThere(): boolean {
    return this.#head.subarray(0, LOCAL_HEADER.length).equals(LOCAL_HEADER) && this.#tail.includes(END_OF_DIRECTORY);
  }
}
