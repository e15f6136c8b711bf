/**
 * Run as a process of its own, with a limit on the size of files: writes until the file may not grow, goes on trying,
 * makes room, and says what it saw.
 */
import { EmbeddedKeyvStorage } from '../../src/store/embedded-keyv.ts';

const storage = new EmbeddedKeyvStorage(process.argv[2] ?? '');
const value = 'x'.repeat(9_000);
let taken = 0;
let refused = 0;
for (let n = 0; n < 600; n++) {
  await storage.set(`k${n}`, value).then(
    () => {
      taken += 1;
    },
    () => {
      refused += 1;
    },
  );
}
const firstIsThere = (await storage.get('k0')) === value;
for (let n = 0; n < 50; n++) await storage.delete(`k${n}`);
await storage.set('after', value);
const works = (await storage.get('after')) === value;
await storage.disconnect();
process.stdout.write(JSON.stringify({ taken: taken > 0, refused: refused > 0, firstIsThere, works }));
