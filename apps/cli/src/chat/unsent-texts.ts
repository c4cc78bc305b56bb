import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { espalierHome, type Session } from "@espalier/engine";
import { createWhole, systemCode } from "@espalier/jsonl-stream/node";

/** Texts of a chat that are not in its session. */
export interface UnsentTexts {
  draft: string;
  /** Answer that the model is still writing. It is appended to the session when it is complete or aborted. */
  answer: string;
}

/** Properties of a session from which the name of its files is made. */
type ChatSession = Pick<Session, "file" | "header" | "leafId">;

/**
 * File with the unsent texts of one chat, in `~/.espalier/drafts`, mode 0600. The file outlives the terminal and the
 * process. Each process has its own file, because two terminals can share a session.
 */
export class UnsentFile {
  readonly #onError: (sentence: string) => void;
  /** Path and content of the file; empty when there is no file. */
  #file = "";
  #content = "";
  #isBroken = false;

  constructor(onError: (sentence: string) => void) {
    this.#onError = onError;
  }

  /**
   * Writes these texts when they differ from the file; removes the file when both are empty. Synchronous, for `exit`.
   * The first failure is reported, and nothing is written after it.
   */
  keep(session: ChatSession, texts: UnsentTexts): void {
    const isEmpty = texts.draft.trim() === "" && texts.answer === "";
    const file = isEmpty ? "" : `${pathOf(session)}.${process.pid}`;
    const content = isEmpty ? "" : JSON.stringify(texts);
    if (this.#isBroken || (file === this.#file && content === this.#content)) return;
    const before = this.#file;
    try {
      if (!isEmpty) {
        mkdirSync(draftsFolder(), { recursive: true, mode: 0o700 });
        createWhole(file, [Buffer.from(content)], { replaces: true, isDurable: false });
      }
      [this.#file, this.#content] = [file, content];
      if (before !== "" && before !== file) rmSync(before, { force: true });
    } catch (error) {
      this.#fail(error);
    }
  }

  /**
   * Returns the texts that ended processes left for this session: all drafts, and one answer. The drafts are moved to
   * the file of this process; the answers are not kept.
   */
  take(session: ChatSession): UnsentTexts {
    let left: ReturnType<typeof filesOf> = [];
    try {
      left = filesOf(session).filter(({ pid }) => !isRunning(pid));
    } catch (error) {
      this.#fail(error);
    }
    const found = left.flatMap(({ file }) => this.#read(file));
    const drafts = found.map(({ draft }) => draft).filter((draft) => draft.trim() !== "");
    const draft = drafts.join("\n\n");
    // The answer is shown once, so it is not kept.
    this.keep(session, { draft, answer: "" });
    if (!this.#isBroken) for (const { file } of found) if (file !== this.#file) rmSync(file, { force: true });
    return { draft, answer: found.findLast(({ answer }) => answer !== "")?.answer ?? "" };
  }

  #fail(error: unknown): void {
    this.#isBroken = true;
    this.#onError(
      `Unsent texts cannot be kept in ${draftsFolder()} (${systemCode(error) ?? "an error"}), so they are lost when this terminal closes; make it a folder that you can write to.`,
    );
  }

  #read(file: string): (UnsentTexts & { file: string })[] {
    try {
      const { draft, answer } = JSON.parse(readFileSync(file, "utf8")) as Partial<Record<string, unknown>>;
      if (typeof draft === "string" && typeof answer === "string") return [{ draft, answer, file }];
      throw new Error("it has no draft and no answer");
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      this.#onError(`${file} cannot be read (${why}); it held an unsent text, and can be deleted.`);
      return [];
    }
  }
}

/** Removes the unsent texts of a deleted session. */
export function removeUnsent(file: string): void {
  for (const left of filesOf({ file, header: undefined, leafId: "" })) rmSync(left.file, { force: true });
}

const draftsFolder = (): string => join(espalierHome(), "drafts");

/**
 * Returns the path of a session's unsent texts, without the process id. Before its first message, a new session is named
 * after its folder, so that the next new chat in the folder finds the text.
 */
function pathOf({ file, header, leafId }: ChatSession): string {
  const name = leafId === null ? `new in ${header?.cwd ?? ""}` : file;
  return join(draftsFolder(), createHash("sha256").update(name).digest("hex").slice(0, 32));
}

/** Returns the files of a session, each with its process id. A file that is being written ends in `.tmp` and is left out. */
function filesOf(session: ChatSession): { file: string; pid: number }[] {
  const path = pathOf(session);
  return filesIn(draftsFolder()).flatMap((name) => {
    const file = join(draftsFolder(), name);
    const pid = file.startsWith(`${path}.`) ? Number(file.slice(path.length + 1)) : Number.NaN;
    return Number.isInteger(pid) ? [{ file, pid }] : [];
  });
}

function filesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    if (systemCode(error) === "ENOENT") return [];
    throw error;
  }
}

/** Returns whether another process with this id is running. */
function isRunning(pid: number): boolean {
  if (pid === process.pid) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCode(error) !== "ESRCH";
  }
}
