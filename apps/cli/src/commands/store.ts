import { realpathSync } from "node:fs";
import { createInterface } from "node:readline/promises";
import {
  type Diagnosis,
  deleteSession,
  type LeftOutSetting,
  listSessions,
  migrateStore,
  openTrust,
  othersMayRead,
  type RepairReport,
  repairSession,
  type SettingOrigin,
  settingsJsonSchema,
} from "@espalier/engine";
import { EspalierError } from "@espalier/jsonl-stream";
import type { SessionRef } from "@espalier/session-tree";
import type { Command } from "commander";
import { CommandError } from "../failure.ts";
import { formatCount, formatMany } from "../numbers.ts";
import { reading, sessionNamed, settingsInForce, storeInUse, storeOf, tellSkipped } from "../opening.ts";
import { print, type Shell } from "../shell.ts";
import { plainLine } from "../text.ts";

export function addDelete(program: Command, shell: Shell): void {
  program
    .command("delete <session>")
    .description("remove a session's file and all that lies beside it; it cannot be brought back")
    .option("--yes", "do not ask")
    .addHelpText("after", "\nExample:\n  espalier delete session.jsonl --yes")
    .action(async (ref: string, { yes = false }: { yes?: boolean }) => {
      if (!yes) await confirm(shell, ref);
      const named = await sessionNamed(shell.store, ref);
      const id = await idOf(shell, named);
      const deleted = await deleteSession(named, storeOf(shell));
      const orphans = id ? await orphansOf(shell, id) : [];
      await print(shell, { deleted, ...(orphans.length > 0 ? { orphans } : {}) }, () => [
        ...deleted.map((file) => `Removed ${file}`),
        ...orphans.map((file) => `${file} was begun from it, and stays whole; its link leads nowhere now.`),
      ]);
    });
}

async function idOf(shell: Shell, ref: SessionRef): Promise<string | undefined> {
  try {
    const log = await storeInUse(shell).open(ref, "read");
    await log.close();
    return log.header?.id;
  } catch (error) {
    // What cannot be read can be deleted; what is not there, deleting tells.
    if (error instanceof EspalierError) return undefined;
    throw error;
  }
}

/** Forks and runs of sub-agents that name a session which is gone; none while there is a copy of it. */
async function orphansOf(shell: Shell, parentId: string): Promise<string[]> {
  const orphans: string[] = [];
  for await (const { id, ref, parent } of listSessions({
    ...storeOf(shell),
    ...tellSkipped(shell),
    subAgents: true,
  })) {
    if (id === parentId) return [];
    if (parent?.sessionId === parentId) orphans.push(ref);
  }
  return orphans;
}

async function confirm(shell: Shell, ref: string): Promise<void> {
  if (!shell.interactive)
    throw new CommandError("confirm", "A deleted session cannot be brought back; say --yes to delete it.");
  const question = await reading(shell, ref, async ({ file, name, tree }) =>
    plainLine(
      `Delete ${file}${name ? ` (${name})` : ""} with ${formatMany(tree.length, "entry", "entries")}? [y/N]`,
    ),
  );
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  try {
    const answer = await terminal.question(`${question} `);
    if (!/^y(es)?$/i.test(answer.trim())) throw new CommandError("confirm", "Nothing was deleted.");
  } finally {
    terminal.close();
  }
}

export function addDoctor(program: Command, shell: Shell): void {
  program
    .command("doctor <session>")
    .description("read every line and say what is wrong, with line and offset; exit 1 when something is")
    .option("--repair <file>", "write a healed copy to this file, and a report beside it")
    .addHelpText(
      "after",
      "\nExamples:\n  espalier doctor session.jsonl\n  espalier doctor session.jsonl --repair healed.jsonl",
    )
    .action((ref: string, { repair }: { repair?: string }) =>
      reading(shell, ref, async (session) => {
        if (repair !== undefined) {
          const report = await repairSession(session.log, repair);
          await print(shell, report, () => viewRepair(report));
          return;
        }
        if (othersMayRead(session.file))
          shell.complain(`Others on this machine may read ${session.file}; \`chmod 600\` keeps it to you.`);
        const diagnosis = session.diagnose();
        if (!diagnosis.ok) shell.exitCode = 1;
        await print(shell, diagnosis, () => viewDiagnosis(shell, diagnosis));
        if (!diagnosis.ok && !shell.json)
          shell.complain(`\`espalier doctor ${ref} --repair <file>\` writes a healed copy.`);
      }),
    );
}

function* viewDiagnosis({ colours }: Shell, { ok, entries, issues }: Diagnosis): Generator<string> {
  for (const { kind, line, offset, id, message } of issues) {
    const byte = `byte ${formatCount(offset)}`;
    const place = line === null ? byte : `line ${formatCount(line)}, ${byte}`;
    yield `${colours.yellow(kind.padEnd(18))} ${colours.dim(place)} ${plainLine(id ? `${id}: ${message}` : message)}`;
  }
  const usable = `${formatMany(entries, "entry", "entries")} can be used`;
  yield ok
    ? colours.green(`The session is sound: ${usable}.`)
    : `${usable}; ${formatMany(issues.length, "issue")}.`;
}

function* viewRepair({ file, report, entries, issues, changes, lost }: RepairReport): Generator<string> {
  const bytes = lost.reduce((sum, { length }) => sum + length, 0);
  yield `The healed copy is ${file}: ${formatMany(entries, "entry", "entries")}, ${formatMany(issues.length, "issue")} seen to.`;
  yield `${formatMany(changes.length, "change")} to what could be read; ${formatMany(bytes, "byte")} could not be kept.`;
  yield `What was done stands in ${report}; the session itself was only read.`;
}

export function addStore(program: Command, shell: Shell): void {
  program
    .command("store <action>")
    .description("set up the store of --store: migrate makes its tables, or brings them up to date")
    .addHelpText("after", "\nExample:\n  ESPALIER_STORE=postgres://localhost/agents espalier store migrate")
    .action(async (action: string) => {
      if (action !== "migrate") throw new CommandError("usage", "What can be done with a store is: migrate.");
      const { store } = shell.globals;
      if (store === undefined)
        throw new CommandError("usage", "Name the store by --store or ESPALIER_STORE.");
      const report = await migrateStore(store);
      for (const warning of report.warnings) shell.complain(warning);
      await print(shell, report, () => [
        report.applied.length > 0
          ? `${report.place} is at version ${report.version} now: ${report.applied.join(", ")}.`
          : `${report.place} is up to date.`,
      ]);
    });
}

export function addConfig(program: Command, shell: Shell): void {
  program
    .command("config")
    .description("print the settings in force, and where each comes from")
    .option("--model <id>", "with what the settings say of this model")
    .option("--schema", "print the JSON Schema of a settings file instead, for editors")
    .addHelpText(
      "after",
      `
Settings are read from ~/.espalier/settings.json (or .toml), then .espalier/settings.json (or .toml) of this folder,
then ESPALIER_COMPACT_* of the environment (ESPALIER_COMPACT_KEEP_RECENT_TOKENS=8000), then the options of a command;
what comes later counts. Those of a project count once it is trusted: \`espalier trust\`. Sizes are tokens or shares of the model's window; "models" has what differs for one of them.

A settings file:
  { "policy": "sliding-window", "keepRecentTokens": 0.1, "models": { "claude-opus-4": { "reserveTokens": 32000 } } }

Examples:
  espalier config
  espalier config --model anthropic/claude-opus-4`,
    )
    .action(async ({ model, schema }: { model?: string; schema?: boolean }) => {
      if (schema) {
        const value = await settingsJsonSchema();
        return print(shell, value, () => [JSON.stringify(value, null, 2)]);
      }
      const { origins, ignored, leftOut } = await settingsInForce(shell, () => model);
      for (const sentence of ignored) shell.complainOnce(sentence);
      const rows = origins.map(({ key, value, origin, file }) => {
        const out = leftOut.find((setting) => setting.key === key);
        return {
          key,
          value,
          origin,
          file,
          ...(out ? { leftOut: { file: out.file, effect: out.effect } } : {}),
        };
      });
      await print(shell, rows, () => viewSettings(origins, leftOut, shell));
    });
}

/** The settings in force, for people: what is not said by default stands out; what does not count comes last. */
function* viewSettings(
  settings: readonly SettingOrigin[],
  leftOut: readonly LeftOutSetting[],
  { colours }: Pick<Shell, "colours">,
): Generator<string> {
  const rows = settings.map((setting) => ({ ...setting, text: textOf(setting.value) }));
  const keyWidth = widest(rows.map(({ key }) => key));
  const valueWidth = widest(rows.map(({ text }) => text));
  yield colours.dim(`${"setting".padEnd(keyWidth)}  ${"value".padEnd(valueWidth)}  from`);
  for (const { key, text, origin, file, variable } of rows) {
    const place = file ?? variable;
    const from = place === null ? origin : `${origin}: ${plainLine(place)}`;
    const row = `${key.padEnd(keyWidth)}  ${text.padEnd(valueWidth)}  `;
    yield origin === "default" ? `${row}${colours.dim(from)}` : `${colours.bold(row)}${from}`;
  }
  if (leftOut.length === 0) return;
  yield "";
  yield colours.dim("left out, since the project is not trusted as it is now:");
  for (const { key, file, effect } of leftOut)
    yield `${key.padEnd(keyWidth)}  ${EFFECTS[effect]}  ${colours.dim(plainLine(file))}`;
}

/** Why a setting of a project does not count before somebody trusts it. */
const EFFECTS: Readonly<Record<LeftOutSetting["effect"], string>> = {
  runs: "runs code",
  sends: "chooses who is sent what was said",
  spends: "decides how often and how much is sent",
};

function textOf(value: unknown): string {
  if (value === null || (Array.isArray(value) && value.length === 0)) return "-";
  return plainLine(Array.isArray(value) ? value.join(", ") : String(value));
}

const widest = (texts: readonly string[]): number => Math.max(5, ...texts.map(({ length }) => length));

interface TrustOptions {
  list?: boolean;
  revoke?: boolean;
}

export function addTrust(program: Command, shell: Shell): void {
  program
    .command("trust [folder]")
    .description(
      "let the settings and extensions of a project count as they are now; without a folder, of this one",
    )
    .option("--revoke", "no longer")
    .option("--list", "list the folders that are trusted")
    .addHelpText(
      "after",
      `
What is trusted are the settings in .espalier, all files in .espalier/extensions and the modules that the settings name,
as they are now. When one of them changes, nothing of the project counts until you are asked again, or trust it again.
What these modules import from elsewhere is not covered.

Examples:
  espalier trust
  espalier trust ../other --revoke`,
    )
    .action(async (folder: string | undefined, { list = false, revoke = false }: TrustOptions) => {
      const trust = openTrust();
      if (list) {
        const folders = trust.list();
        await print(shell, { folders }, () => (folders.length > 0 ? folders : ["No folder is trusted."]));
        return;
      }
      const project = folder ?? process.cwd();
      if (revoke) trust.revoke(project);
      else await trust.trust(project);
      const trusted = trust.isTrusted(project);
      await print(shell, { folder: trusted ? realpathSync(project) : project, trusted }, () => [
        trusted
          ? `Settings and extensions of ${project} count from now on, as they are now.`
          : `Settings and extensions of ${project} do not count any more.`,
      ]);
    });
}
