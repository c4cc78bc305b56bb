/** Where results lie that were moved out of a context. What it holds is a copy: the log keeps every original. */
export interface OffloadStorage {
  /** Where a text is kept, or would be; the same text, the same path. */
  pathFor(text: string): string;
  /** Whether a path is one of this storage, whether or not there is a file. Other paths are never read or removed. */
  owns(path: string): boolean;
  /** Whether there is a file at a path. */
  has(path: string): Promise<boolean>;
  /** Keeps a text, whole before this answers; returns its path. */
  write(text: string): Promise<string>;
  /** The text at a path; undefined when it is gone or cannot be read. */
  read(path: string): Promise<string | undefined>;
  /** Throws when the file cannot be removed. */
  remove(path: string): Promise<void>;
  /** Paths of everything kept. */
  list(): Promise<string[]>;
}
