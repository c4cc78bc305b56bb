import type { AppendSite } from "./append-site.ts";
import type { Entry } from "./entry.ts";
import { kindOf } from "./entry-kinds.ts";

/** The site as it will be behind the entries of the batch that were taken so far. */
export class BatchSite implements AppendSite {
  leafId: string | null;
  readonly #site: AppendSite;
  readonly #added = new Map<string, Entry>();

  constructor(site: AppendSite) {
    this.#site = site;
    this.leafId = site.leafId;
  }

  has(id: string): boolean {
    return this.#added.has(id) || this.#site.has(id);
  }

  isOnPath(id: string, leafId: string | null): boolean {
    let at = leafId;
    for (let entry = this.#added.get(at ?? ""); entry; entry = this.#added.get(at ?? "")) {
      if (entry.id === id) return true;
      at = entry.parentId;
    }
    return at !== null && this.#site.isOnPath(id, at);
  }

  placeOf(id: string): string | null {
    const entry = this.#added.get(id);
    if (!entry) return this.#site.placeOf(id);
    return kindOf(entry).movesLeaf ? id : entry.parentId;
  }

  add(entry: Entry): void {
    this.#added.set(entry.id, entry);
    const kind = kindOf(entry);
    if (kind.leafTarget) this.leafId = kind.leafTarget(entry);
    else if (kind.movesLeaf) this.leafId = entry.id;
  }
}
