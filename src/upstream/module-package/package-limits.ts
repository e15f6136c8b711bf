/** How much one module package may take. What is over a limit is refused, never cut. */
export interface PackageLimits {
  /** Bytes that are fetched: of an archive, or of a repository at one commit. */
  readonly download: number;
  /** Bytes of all files together, links dereferenced. */
  readonly unpacked: number;
  /** Files, links and directories. */
  readonly files: number;
  /** Milliseconds from the first request to the finished package. */
  readonly time: number;
}
