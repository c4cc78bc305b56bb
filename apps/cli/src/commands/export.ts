import { basename } from "node:path";
import type { Session } from "@espalier/engine";
import { type ExportFormat, exportSession } from "@espalier/interop";
import { redactText } from "@espalier/session-tree";
import { type Command, Option } from "commander";
import { entryNamed } from "../entry-reference.ts";
import { exportHtml } from "../export-html.ts";
import { CommandError } from "../failure.ts";
import { formatMany } from "../numbers.ts";
import { reading } from "../opening.ts";
import { plainLine, plainText } from "../plain-text.ts";
import { print } from "../print.ts";
import { warnOfDamage } from "../session-warnings.ts";
import type { Shell } from "../shell.ts";
import { writeExport } from "../write-export.ts";

interface ExportCommandOptions {
  format: ExportFormat | "html";
  at?: string;
  all?: boolean;
  redact?: boolean;
  out?: string;
}

/** The formats, and how the file is called where nobody says. */
const ENDINGS: Record<ExportCommandOptions["format"], string> = {
  html: "html",
  markdown: "md",
  json: "json",
  jsonl: "copy.jsonl",
  anthropic: "anthropic.json",
  openai: "openai.json",
  "openai-responses": "openai-responses.json",
  "ai-sdk": "ai-sdk.json",
};

/** Formats that hold the whole session, unless one path is asked for. */
const HOLDS_ALL: ReadonlySet<string> = new Set(["html", "json", "jsonl"]);

export function addExport(program: Command, shell: Shell): void {
  program
    .command("export <session>")
    .description("write a session for people, for other programs, or as the request that its context makes")
    .addOption(
      new Option("--format <format>", "what to write").choices(Object.keys(ENDINGS)).makeOptionMandatory(),
    )
    .option("--at <id>", "the path that ends here; by default the leaf's, and for html, json and jsonl all")
    .option("--all", "with markdown all branches; html, json and jsonl hold them without it")
    .option("--redact", "leave out well-known keys and tokens")
    .option("--out <file>", "where to write it, readable for you alone; by default it is printed")
    .addHelpText(
      "after",
      `
With --json and no --out the file is named after the session, in this folder. A session is never written over.

Examples:
  espalier export session.jsonl --format markdown | less
  espalier export session.jsonl --format html --redact --out session.html
  espalier export session.jsonl --format anthropic --at before-cache`,
    )
    .action(async (ref: string, options: ExportCommandOptions) => {
      refuseNeedlessAll(options);
      await reading(shell, ref, async (session) => {
        warnOfDamage(shell, session, session.tree.issues);
        const pieces = await exported(session, options);
        const { out } = options;
        if (out === undefined && !shell.json) {
          // On a screen it is for a person; anywhere else it is the document itself.
          const isScreen = Number.isFinite(shell.columns);
          for (const piece of pieces) await shell.output.write(isScreen ? plainText(piece) : piece);
          return;
        }
        const file = out ?? `${basename(session.file, ".jsonl")}.${ENDINGS[options.format]}`;
        const written = writeExport(file, pieces);
        await print(shell, written, () => [
          `${formatMany(written.entries, "entry", "entries")} written to ${plainLine(written.file)}.`,
        ]);
      });
    });
}

/** An option that would do nothing may stand for a wish that is not granted. */
function refuseNeedlessAll({ format, all }: ExportCommandOptions): void {
  if (!all || format === "markdown") return;
  const why = HOLDS_ALL.has(format)
    ? `${format} holds all branches without it`
    : "a request is made of one path, and --at says of which";
  throw new CommandError("usage", `Leave out --all, which is for markdown: ${why}.`);
}

async function exported(
  session: Session,
  { format, at, all, redact }: ExportCommandOptions,
): Promise<Generator<string, number>> {
  const options = {
    ...(at === undefined ? {} : { at: entryNamed(session, at) }),
    ...(redact ? { redact: redactText } : {}),
  };
  return format === "html"
    ? await exportHtml(session, options)
    : exportSession(session, { format, all, ...options });
}
