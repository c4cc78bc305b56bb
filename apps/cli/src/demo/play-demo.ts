import { DEFAULT_SETTINGS, openSession } from "@espalier/engine";
import { CommandError } from "../failure.ts";
import { reading, storeOf } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import { printLine } from "../print.ts";
import { summarizerOf } from "../settings-in-force.ts";
import type { Shell } from "../shell.ts";
import { copiesInFolder, copiesInStore, type DemoCopies } from "./demo-copies.ts";
import { demoPlace } from "./demo-place.ts";
import type { DemoSource } from "./demo-source.ts";
import { type DemoStage, openStage } from "./demo-stage.ts";
import {
  showCompaction,
  showContext,
  showFork,
  showNavigation,
  showSummary,
  showTree,
} from "./demo-steps.ts";

/**
 * Tells the story on a copy of a session, in the store of --store where there is one, and proves in the end that the
 * original is as it was.
 */
export async function playDemo(shell: Shell, { ref, name, madeFrom }: DemoSource): Promise<void> {
  const { store } = shell;
  const called = plainLine(name ?? ref);
  const original = plainLine(madeFrom ?? called);
  // What cannot be read is refused before anything is made of it.
  if (!store) await reading(shell, ref, async () => undefined);
  const copies = store ? await copiesInStore(store, ref, name !== undefined) : copiesInFolder(ref, madeFrom);
  const before = await copies.original();
  if (!shell.json) await printLine(shell, `Everything happens to a copy of ${called}.`);
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

/** How the reader calls the command: in a clone, where npm runs the demo, there is none of that name. */
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
