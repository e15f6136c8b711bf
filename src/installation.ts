/**
 * What is installed with the program, beside `src/` and beside what is built of it.
 *
 * Only a file that lies directly in `src/` can find it in both: built, the parts of Larder lie side by side.
 * @param path from the root of the installation
 */
export function installed(path: string): URL {
  return new URL(`../${path}`, import.meta.url);
}
