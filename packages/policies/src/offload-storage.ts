/** Where results lie that were moved out of a context. What it holds is a copy: the log keeps every original. */
export interface OffloadStorage {
  /** Where a text is kept, or would be; the same text, the same path. */
  pathFor(text: string): string;
  /** Whether a path is one that {@link pathFor} gives, whether or not there is a file. Other paths are never read. */
  owns(path: string): boolean;
  /** Whether there is a file at a path. */
  has(path: string): Promise<boolean>;
  /** Keeps a text, whole before this answers; returns its path. */
  write(text: string): Promise<string>;
  /** The text at a path; undefined when it is gone or cannot be read. */
  read(path: string): Promise<string | undefined>;
  /** Removes one of the paths that {@link list} told of; throws when that cannot be done. */
  remove(path: string): Promise<void>;
  /** Paths of everything kept, and of what a writer that died left behind. */
  list(): Promise<string[]>;
}
