import { type FileTree, MAX_PATHS_BYTES, type TreeEntry, type TreeFile, type TreeLink } from './file-tree.ts';
import { isAbsolute, quoted } from './tree-path.ts';

/** What is in a package at last: files, and directories that have nothing in them. */
export type FlatEntry = ({ readonly path: string } & TreeFile) | { readonly path: string; readonly kind: 'directory' };

export interface FlatTree {
  readonly entries: readonly FlatEntry[];
  /** Links that lead nowhere, or in a circle, and are left out. */
  readonly danglingLinks: readonly string[];
}

/** As the kernel has it: a longer chain of links counts as a circle. */
const MAX_CHAIN = 40;
/** Names looked up while links are followed; real packages need a few for each link. */
const MAX_STEPS = 5_000_000;
/** Bytes. Links within links can make paths longer than any archive could. */
const MAX_PATH_BYTES = 4096;

interface Directory {
  readonly kind: 'directory';
  readonly parent: Directory | undefined;
  readonly children: Map<string, Node>;
}
interface Link extends TreeLink {
  readonly path: string;
  readonly parent: Directory;
}
type Node = Directory | Link | TreeFile;
type Followed = Directory | TreeFile | undefined;

/**
 * Takes links out of a tree, since the clients unpack none: a link to a file becomes that file, a link to a directory
 * becomes all that is in it. A link that leads to a directory around itself is followed once, and left out within.
 *
 * @throws UpstreamInvalid for a link that is absolute or leads out of the tree, and when what comes out is over a limit.
 */
export function resolveLinks(tree: FileTree): FlatTree {
  return new Flattening(tree).run();
}

class Flattening {
  readonly #tree: FileTree;
  readonly #root: Directory;
  readonly #followed = new Map<Link, Followed>();
  readonly #within = new Set<Link>();
  readonly #entries: FlatEntry[] = [];
  readonly #dangling = new Set<string>();
  #visited = 0;
  #pathBytes = 0;
  #bytes = 0;
  #steps = 0;

  constructor(tree: FileTree) {
    this.#tree = tree;
    this.#root = nodesOf(tree);
  }

  run(): FlatTree {
    this.#expand(this.#root, '');
    return { entries: this.#entries, danglingLinks: [...this.#dangling] };
  }

  #expand(directory: Directory, prefix: string): void {
    for (const [name, node] of directory.children) {
      const path = prefix + name;
      if (++this.#visited > this.#tree.limits.files) throw this.#tree.tooMany();
      if (node.kind !== 'link') {
        this.#add(path, node);
        continue;
      }
      const target = this.#follow(node, 0);
      if (!target) this.#dangling.add(node.path);
      else if (target.kind === 'file') this.#add(path, target);
      else if (!this.#within.has(node)) {
        this.#within.add(node);
        this.#add(path, target);
        this.#within.delete(node);
      }
    }
  }

  #add(path: string, node: Directory | TreeFile): void {
    if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
      throw this.#tree.refuse(`has a package in which links make the path ${quoted(path)} too long`);
    }
    this.#pathBytes += path.length;
    if (this.#pathBytes > MAX_PATHS_BYTES) {
      throw this.#tree.refuse(`has a package in which links make more than ${MAX_PATHS_BYTES} bytes of paths`);
    }
    if (node.kind === 'file') {
      this.#bytes += node.size;
      if (this.#bytes > this.#tree.limits.unpacked) throw this.#tree.tooLarge();
      this.#entries.push({ ...node, path });
      return;
    }
    const before = this.#entries.length;
    this.#expand(node, `${path}/`);
    if (this.#entries.length === before) this.#entries.push({ path, kind: 'directory' });
  }

  #follow(link: Link, chain: number): Followed {
    if (this.#followed.has(link)) return this.#followed.get(link);
    if (chain === MAX_CHAIN) return undefined;
    if (isAbsolute(link.target)) throw this.#refuse(link);
    let at: Directory | TreeFile = link.parent;
    for (const name of link.target.split('/')) {
      if (++this.#steps > MAX_STEPS) {
        throw this.#tree.refuse('has a package whose links lead through too many other links');
      }
      if (at.kind !== 'directory') return undefined;
      if (name === '' || name === '.') continue;
      let next: Followed;
      if (name === '..') {
        next = at.parent;
        if (!next) throw this.#refuse(link);
      } else {
        const child = at.children.get(name);
        next = child?.kind === 'link' ? this.#follow(child, chain + 1) : child;
      }
      if (!next) return undefined;
      at = next;
    }
    this.#followed.set(link, at);
    return at;
  }

  #refuse(link: Link): Error {
    return this.#tree.refuse(
      `has a link ${quoted(link.path)} in a package that leads out of it, to ${quoted(link.target)}`,
    );
  }
}

/** Sorted, so that what comes out does not depend on the order in which an archive has it. */
function nodesOf(tree: FileTree): Directory {
  const root: Directory = { kind: 'directory', parent: undefined, children: new Map() };
  const directories = new Map<string, Directory>([['', root]]);
  for (const path of [...tree.entries.keys()].sort()) {
    const entry = tree.entries.get(path) as TreeEntry;
    const slash = path.lastIndexOf('/');
    // Sorted, a directory comes before what is in it.
    const parent = directories.get(path.slice(0, Math.max(slash, 0))) as Directory;
    if (entry.kind === 'file') {
      parent.children.set(path.slice(slash + 1), entry);
    } else if (entry.kind === 'link') {
      parent.children.set(path.slice(slash + 1), { ...entry, path, parent });
    } else {
      const directory: Directory = { kind: 'directory', parent, children: new Map() };
      directories.set(path, directory);
      parent.children.set(path.slice(slash + 1), directory);
    }
  }
  return root;
}
