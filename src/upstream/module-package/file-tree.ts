/** A file whose bytes rest in a file of the work directory that is named by us, never by whoever made the package. */
export interface TreeFile {
  readonly kind: 'file';
  readonly content: string;
  /** Bytes. */
  readonly size: number;
  readonly executable: boolean;
}

export interface TreeLink {
  readonly kind: 'link';
  /** As it stands in the link: relative to the directory that it is in. */
  readonly target: string;
}

export interface TreeDirectory {
  readonly kind: 'directory';
}

export type TreeEntry = TreeFile | TreeLink | TreeDirectory;
