import {
  claudeCodeImporter,
  type PageFile,
  ScratchSpace,
  type SessionDraft,
  type SiblingFiles,
} from "@espalier/interop";
import { SourceFiles } from "@espalier/interop/node";
import { expect, test } from "vitest";
import { answer, call, type Line, result, thinking, user } from "./claude-code-lines.ts";
import { writeSession } from "./import-scratch.ts";

/** Pages in memory that complain as a file would. */
class Pages implements PageFile {
  readonly #pages = new Map<number, Uint8Array>();
  written = 0;
  isClosed = false;

  read(offset: number, page: Uint8Array): void {
    page.set(this.#pages.get(offset)!);
  }

  write(offset: number, page: Uint8Array): void {
    this.written++;
    this.#pages.set(offset, page.slice());
  }

  close(): void {
    expect(this.isClosed).toBe(false);
    this.isClosed = true;
  }
}

/** More lines than are sorted at a time, and than are known without a search. */
const TURNS = 6_000;

/** A long session: calls in parts, branches from far above, a line above its parent, lines and ids twice, forks. */
function longSession(): Line[] {
  const lines: Line[] = [user("u0", null)];
  for (let turn = 1; turn <= TURNS; turn++) {
    const above = turn % 50 === 0 ? `u${turn >> 1}` : turn === 1 ? "u0" : `r${turn - 1}`;
    const id = `msg_${turn}`;
    const prompt = user(`u${turn}`, above, `prompt ${turn}`);
    const thought = answer(`t${turn}`, `u${turn}`, thinking(`${turn}`), { id, stop: "tool_use" });
    const tool = answer(`c${turn}`, `t${turn}`, call(`toolu_${turn}`), { id, stop: "tool_use" });
    // Results name calls of long ago, too.
    const reply = result(`r${turn}`, `c${turn}`, turn % 70 === 0 ? `toolu_${turn >> 1}` : `toolu_${turn}`);
    lines.push(...(turn % 400 === 0 ? [thought, tool, reply, prompt] : [prompt, thought, tool, reply]));
    if (turn % 90 === 0) lines.push(lines[turn]!, user(`u${turn >> 1}`, `r${turn}`, `another ${turn}`));
    if (turn % 800 === 0) lines.push(user(`lost${turn}`, `nowhere${turn}`));
  }
  return lines;
}

function entriesOf(path: string, scratch?: ScratchSpace): [unknown[], SessionDraft] {
  const files = new SourceFiles();
  const siblings: SiblingFiles = { files: [], open: () => undefined, ...(scratch ? { scratch } : {}) };
  const [draft] = claudeCodeImporter(siblings).read(files.open(path));
  const entries = [...draft!.entries()];
  files.close();
  return [entries, draft!];
}

const lines = longSession();
const path = writeSession(lines);
const [entries, draft] = entriesOf(path);

test("data about lines is the same with two pages in memory as completely in memory", () => {
  const pages = new Pages();
  const scratch = new ScratchSpace(() => pages, 2);
  const [fromFile, draftFromFile] = entriesOf(path, scratch);
  scratch.close();
  expect(pages.written).toBeGreaterThan(20);
  expect(pages.isClosed).toBe(true);
  expect(fromFile).toEqual(entries);
  expect(draftFromFile.leafId).toBe(draft.leafId);
  expect(draftFromFile.issues.list()).toEqual(draft.issues.list());
});

test("parts of an answer are one message for any number of answers, and results know their tools", () => {
  const messages = entries.map((entry) => (entry as { message?: Line }).message);
  expect(messages.filter((message) => message?.["role"] === "assistant")).toHaveLength(TURNS);
  const results = messages.filter((message) => message?.["role"] === "toolResult");
  expect(results).toHaveLength(TURNS);
  expect(new Set(results.map((message) => message?.["toolName"]))).toEqual(new Set(["Bash"]));
});

test("of lines repeated far apart one counts, and successors of an id follow its first line", () => {
  const unlike = new Map(lines.toReversed().map((line) => [line["uuid"], line]));
  const again = [...unlike.values()].reverse();
  const twice = writeSession([...lines, ...again, user("end", "u3")]);
  const [both, told] = entriesOf(twice);
  expect(both).toHaveLength(entries.length + 1);
  expect(both.slice(0, entries.length)).toEqual(entries);
  expect(both.at(-1)).toMatchObject({ id: "end", parentId: "u3" });
  const repeated = told.issues.list().find(({ kind }) => kind === "duplicate-line");
  expect(repeated?.count).toBeGreaterThanOrEqual(again.length);
});
