/** The files that a span touched. A file can be in several sets. */
export interface FileOps {
  read: Set<string>;
  written: Set<string>;
  edited: Set<string>;
}

/** Nothing touched yet. */
export const newFileOps = (): FileOps => ({ read: new Set(), written: new Set(), edited: new Set() });
