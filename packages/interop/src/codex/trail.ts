import type { Entry } from "@espalier/session-tree";
import { type EntryBody, entryOf, type SourceTime } from "../import-entry.ts";
import { IdColumn } from "../scratch/id-column.ts";
import type { ScratchArea } from "../scratch/scratch-area.ts";
import type { ScratchColumn } from "../scratch/scratch-column.ts";

/** How many of the newest entries are remembered by what they say. */
const REMEMBERED = 256;

/** How much of what the user said is remembered, in characters: as much as Codex itself keeps when it compacts (20,000 tokens). */
const USER_CHARACTERS = 80_000;

/** Something that was said, on the path. */
export interface Said {
  id: string;
  role: string;
  text: string;
  /** Its position among all entries that were written. */
  position: number;
}

/** Where a thread stands: the leaf, the turns that can be taken back, and what was said last. */
export class Trail {
  leafId: string | null = null;
  #position = 0;
  /** Where each turn began that can be taken back: what stood before it, and at which position. */
  readonly #before: IdColumn;
  readonly #began: ScratchColumn<Float64Array>;
  #turns = 0;
  /** Where the run of entries began that nobody has answered yet. */
  #runStart: { before: string | null; position: number } | undefined;
  #said: Said[] = [];
  #users: Said[] = [];
  #userCharacters = 0;

  constructor(area: ScratchArea) {
    this.#before = new IdColumn(area);
    this.#began = area.floats();
  }

  /** Writes an entry at the leaf. */
  grow(body: EntryBody, id: string, time: SourceTime): Entry {
    const entry = entryOf(body, id, this.leafId, time.iso);
    this.#position++;
    // Names and bills stand beside the conversation.
    if (body.type === "session_info" || body.type === "usage") return entry;
    this.#runStart ??= { before: this.leafId, position: this.#position };
    this.leafId = id;
    return entry;
  }

  /** Remembers what the entry at the leaf says; `isPrompt` where the user said it. */
  remember(role: string, text: string, isPrompt = false): void {
    const said = { id: this.leafId ?? "", role, text, position: this.#position };
    this.#said.push(said);
    if (this.#said.length > 2 * REMEMBERED) this.#said = this.#said.slice(-REMEMBERED);
    if (!isPrompt) return;
    this.#users.push(said);
    this.#userCharacters += text.length;
    // The newest prompt stays, however long it is.
    while (this.#userCharacters > USER_CHARACTERS && this.#users.length > 1)
      this.#userCharacters -= this.#users.shift()!.text.length;
  }

  /** A user turn begins with the run of entries that leads to the prompt, and the prompt itself is at the leaf. */
  beginTurn(): void {
    const start = this.#runStart ?? { before: this.leafId, position: this.#position };
    this.#before.set(this.#turns, start.before);
    this.#began.set(this.#turns++, start.position);
    this.#runStart = undefined;
  }

  /** What comes next is no part of what was before: an answer, a result, a new task. */
  endRun(): void {
    this.#runStart = undefined;
  }

  /** Goes back so many user turns, or to the beginning; returns how many could be taken back. */
  rollBack(turns: number): number {
    const taken = Math.min(turns, this.#turns);
    if (taken === 0) return 0;
    this.#turns -= taken;
    const position = this.#began.get(this.#turns);
    this.leafId = this.#before.get(this.#turns);
    this.#said = this.#said.filter((said) => said.position < position);
    this.#keepUsers((said) => said.position < position);
    this.#runStart = undefined;
    return taken;
  }

  /** From here on nothing that was said before counts, but for the last so many things. */
  forget(butLast = 0): void {
    this.#said = butLast === 0 ? [] : this.#said.slice(-butLast);
    const from = this.#said[0]?.position ?? Number.POSITIVE_INFINITY;
    this.#keepUsers(({ position }) => position >= from);
    this.#runStart = undefined;
  }

  /** The newest of what was said, the last one last. */
  get said(): readonly Said[] {
    return this.#said;
  }

  /** What the user said, as far as it is remembered. */
  get users(): readonly Said[] {
    return this.#users;
  }

  #keepUsers(stays: (said: Said) => boolean): void {
    this.#users = this.#users.filter(stays);
    this.#userCharacters = this.#users.reduce((sum, { text }) => sum + text.length, 0);
  }
}
