import { ID_LENGTH, type UpgradeMemory } from "@espalier/session-tree";
import { IdRows } from "../scratch/id-rows.ts";
import type { ScratchArea } from "../scratch/scratch-area.ts";
import { ScratchTexts } from "../scratch/scratch-texts.ts";

/** What upgrading a file of version 1 remembers of its lines, in scratch space. */
export class ScratchUpgradeMemory implements UpgradeMemory {
  readonly #area: ScratchArea;
  /** By place; empty where a line is no entry. */
  readonly #ids: ScratchTexts;
  readonly #taken: IdRows;

  constructor(area: ScratchArea) {
    this.#area = area;
    this.#ids = new ScratchTexts(area);
    this.#taken = new IdRows(area);
  }

  get length(): number {
    return this.#ids.length;
  }

  add(id: string | undefined): void {
    this.#ids.add(id ?? "");
  }

  idAt(place: number): string | undefined {
    return this.#ids.get(place) || undefined;
  }

  take(id: string): void {
    // Any other can be in nobody's way.
    if (id.length !== ID_LENGTH) return;
    this.#area.hash.hashText(id);
    if (this.#taken.find(this.#area.hash) < 0) this.#taken.add(this.#area.hash, -1);
  }

  isTaken(id: string): boolean {
    if (this.#taken.length === 0) return false;
    this.#area.hash.hashText(id);
    return this.#taken.find(this.#area.hash) >= 0;
  }
}
