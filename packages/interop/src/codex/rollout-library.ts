import type { Surroundings } from "../import-draft.ts";
import { ScratchSpace } from "../scratch/scratch-space.ts";
import { idsInName, RolloutFile } from "./rollout-file.ts";

/** The other rollouts, found by what lines call them. */
export class RolloutLibrary {
  readonly #surroundings: Surroundings;
  /** Room for what is kept of each turn. */
  readonly scratch: ScratchSpace;
  #paths: Map<string, string> | undefined;

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
    this.scratch = surroundings.scratch ?? new ScratchSpace();
  }

  /** The file with this id: of a segment, or of a thread, then its first file. */
  open(segment: string): RolloutFile | undefined {
    this.#paths ??= pathsById(this.#surroundings.files);
    const path = this.#paths.get(segment);
    const source = path === undefined ? undefined : this.#surroundings.open(path);
    return source && new RolloutFile(source);
  }

  /** The other files of a thread. */
  othersOf({ threadId, source }: RolloutFile): RolloutFile[] {
    return this.#surroundings.files.flatMap((path): RolloutFile[] => {
      const other =
        path !== source.path && idsInName(path).thread === threadId
          ? this.#surroundings.open(path)
          : undefined;
      return other ? [new RolloutFile(other)] : [];
    });
  }
}

/** A compressed copy counts only where there is no other. */
function pathsById(files: readonly string[]): Map<string, string> {
  const paths = new Map<string, string>();
  for (const path of files) {
    const { segment } = idsInName(path);
    const known = segment === undefined ? undefined : paths.get(segment);
    if (segment !== undefined && (known === undefined || known.endsWith(".zst"))) paths.set(segment, path);
  }
  return paths;
}
