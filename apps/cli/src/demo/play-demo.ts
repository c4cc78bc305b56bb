import { createHash } from "node:crypto";
import { copyFileSync, createReadStream, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { DEFAULT_SETTINGS, openSession } from "@espalier/engine";
import { CommandError } from "../failure.ts";
import { reading, summarizerOf } from "../opening.ts";
import { plainLine } from "../plain-text.ts";
import type { Shell } from "../shell.ts";
import { demoPlace } from "./demo-place.ts";
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
 * Tells the story on a copy of the file, and proves in the end that the file is as it was.
 * @param name what people call the file
 */
export async function playDemo(shell: Shell, file: string, name = file): Promise<void> {
  const before = await reading(shell, file, () => digestOf(file));
  const folder = mkdtempSync(join(tmpdir(), "espalier-demo-"));
  const copy = join(folder, basename(file));
  copyFileSync(file, copy);
  if (!shell.json) await shell.output.writeLine(`Everything happens to a copy of ${plainLine(name)}.`);
  const stage = openStage(shell);
  try {
    await playSteps(shell, stage, copy, join(folder, "fork.jsonl"));
  } catch (error) {
    rmSync(folder, { recursive: true });
    throw error;
  }
  const after = await digestOf(file);
  if (after !== before) throw new CommandError("changed", `${file} was changed by something else meanwhile.`);
  const ending = {
    file: { path: file, bytes: statSync(file).size, sha256: after, untouched: true },
    folder,
  };
  await stage.show(
    "Your turn",
    "The file is as it was, byte for byte; the copies are yours to play with.",
    ending,
    [
      `untouched   ${plainLine(name)} (SHA-256 ${after.slice(0, 16)}…, as before)`,
      `the copies  ${folder}`,
      "",
      "Try these with a session of your own:",
      "  espalier tree <file>",
      "  espalier context <file> --format anthropic",
      "  espalier navigate <file> <id> --summarize",
    ],
  );
}

async function playSteps(shell: Shell, stage: DemoStage, copy: string, fork: string): Promise<void> {
  // The demo shows the program as it comes, whatever the settings say.
  const session = await openSession(copy, summarizerOf(shell, DEFAULT_SETTINGS));
  try {
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

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  await pipeline(createReadStream(file), hash);
  return hash.digest("hex");
}
