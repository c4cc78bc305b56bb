import { createHash } from "node:crypto";
import { copyFileSync, createReadStream, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { pipeline } from "node:stream/promises";
import { copySession, DEFAULT_SETTINGS, openSession } from "@espalier/engine";
import { createId, type SessionStore } from "@espalier/session-tree";
import { fileStore } from "@espalier/session-tree/node";
import { CommandError } from "../failure.ts";
import { foreignAgentOf, storeOf, summarizerOf, withSession } from "../opening.ts";
import { printLine, type Shell } from "../shell.ts";
import { plainLine } from "../text.ts";
import {
  type DemoStage,
  demoPlace,
  openStage,
  showCompaction,
  showContext,
  showFork,
  showNavigation,
  showSummary,
  showTree,
} from "./steps.ts";

/**
 * Tells the story on a copy of a session, in the store of --store where there is one, and proves in the end that the
 * original is as it was.
 */
export async function playDemo(shell: Shell, { ref, name, madeFrom }: DemoSource): Promise<void> {
  const { store } = shell;
  const called = plainLine(name ?? ref);
  const original = plainLine(madeFrom ?? called);
  // What cannot be read is refused before anything is made of it.
  if (!store) await withSession(shell, "read", ref, async () => undefined);
  const copies = store ? await copiesInStore(store, ref, name !== undefined) : copiesInFolder(ref, madeFrom);
  const before = await copies.original();
  if (!shell.json) await printLine(shell, `The demo works on a copy of ${called}.`);
  const stage = openStage(shell);
  try {
    await playSteps(shell, stage, copies);
  } catch (error) {
    await copies.discard();
    throw error;
  }
  const after = await copies.original();
  if (after.sha256 !== before.sha256)
    throw new CommandError("changed", `${original} was changed by something else meanwhile.`);
  const ending = { file: { path: madeFrom ?? ref, ...after, untouched: true }, ...copies.facts };
  await stage.show(
    "Your turn",
    "The session is as it was, byte for byte; the copies are yours to play with.",
    ending,
    [
      `untouched   ${original} (SHA-256 ${after.sha256.slice(0, 16)}…, as before)`,
      `the copies  ${copies.place}`,
      "",
      "Try these with a session of your own:",
      `  ${COMMAND} tree <file>`,
      `  ${COMMAND} context <file> --format anthropic`,
      `  ${COMMAND} navigate <file> <id> --summarize`,
      `  ${COMMAND}`,
    ],
  );
}

/** Name of the command: a clone, where npm runs the demo, has none on its path. */
const COMMAND = process.env["npm_lifecycle_event"] === "demo" ? "npm run -s espalier --" : "espalier";

async function playSteps(shell: Shell, stage: DemoStage, { copy, fork }: DemoCopies): Promise<void> {
  // The demo shows the program as it comes, whatever the settings say.
  const session = await openSession(
    { file: copy },
    { ...summarizerOf(shell, DEFAULT_SETTINGS), ...storeOf(shell) },
  );
  try {
    await session.load();
    await showTree(stage, shell, session);
    await showContext(stage, session);
    const place = demoPlace(session);
    if (!place) return;
    await showNavigation(stage, session, place);
    await showSummary(stage, shell, session, place);
    await showFork(stage, session, place, fork);
    await showCompaction(stage, shell, session);
  } finally {
    await session.close();
  }
}

/** The session that a demo is of. */
interface DemoSource {
  ref: string;
  /** Name for people, of a file that is read whatever the store is. */
  name?: string;
  /** The file that it was made from, where it is not that file itself. */
  madeFrom?: string;
}

/**
 * Calls `play` with a file as it is, or, where another agent wrote it, with the session that an import makes of it; that
 * one is gone when `play` is done.
 */
export async function withDemoSource(
  named: string,
  play: (source: DemoSource) => Promise<void>,
): Promise<void> {
  const file = resolve(named);
  const agent = await foreignAgentOf(file);
  if (agent === undefined) return play({ ref: file });
  const { importSessions } = await import("@espalier/interop/node");
  const home = mkdtempSync(join(tmpdir(), "espalier-demo-import-"));
  try {
    const store = fileStore({ home });
    for await (const { file: ref } of importSessions(file, { store }))
      if (ref !== null)
        return await play({
          ref,
          name: `what an import makes of ${file}, a session of ${agent}`,
          madeFrom: file,
        });
  } finally {
    rmSync(home, { recursive: true });
  }
  // Nothing in it could be imported: whoever opens it says what it is.
  return play({ ref: file });
}

/** The copies that the demo plays with, and the original, which it never writes. */
interface DemoCopies {
  copy: string;
  /** File of the fork; undefined leaves it to the store. */
  fork: string | undefined;
  /** Place of both, for people. */
  place: string;
  /** The same, for programs. */
  facts: object;
  /** Bytes of the original and their SHA-256, as they are now. */
  original(): Promise<{ bytes: number; sha256: string }>;
  /** Takes the copies away. */
  discard(): Promise<void>;
}

/** A copy of a file in a folder of its own. The original is the file, or the one that it was made from. */
function copiesInFolder(file: string, original = file): DemoCopies {
  const folder = mkdtempSync(join(tmpdir(), "espalier-demo-"));
  const copy = join(folder, basename(file));
  copyFileSync(file, copy);
  return {
    copy,
    fork: join(folder, "fork.jsonl"),
    place: folder,
    facts: { folder },
    async original() {
      const hash = createHash("sha256");
      await pipeline(createReadStream(original), hash);
      return { bytes: statSync(original).size, sha256: hash.digest("hex") };
    },
    discard: async () => rmSync(folder, { recursive: true }),
  };
}

/**
 * A copy in a store, of one of its sessions or of a file.
 * @throws EspalierError `damaged`, and what the stores throw
 */
async function copiesInStore(store: SessionStore, ref: string, isFile: boolean): Promise<DemoCopies> {
  const source = isFile ? fileStore({ home: tmpdir() }) : store;
  const reading = async <Result>(
    read: (log: Awaited<ReturnType<SessionStore["open"]>>) => Promise<Result>,
  ) => {
    const log = await source.open({ file: ref }, "read");
    return read(log).finally(() => log.close());
  };
  const copy = await reading((log) => copySession(log, store, `demo-${createId()}`));
  return {
    copy: copy.file,
    fork: undefined,
    place: `${copy.file}, and its fork, in the store`,
    facts: { copy: copy.file },
    original: () =>
      reading(async (log) => {
        const view = await log.load();
        const sha256 = createHash("sha256").update(view.read(0, view.size)).digest("hex");
        return { bytes: view.size, sha256 };
      }),
    discard: async () => {
      await store.delete({ file: copy.file });
    },
  };
}
