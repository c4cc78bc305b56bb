import type { Session } from "@espalier/engine";
import { nativeFormats } from "@espalier/interop";
import { buildRequest, type SessionContext } from "@espalier/session-tree";
import { type Command, Option } from "commander";
import { entryNamed } from "../entry-reference.ts";
import { reading } from "../opening.ts";
import { print, printJson } from "../print.ts";
import type { Shell } from "../shell.ts";
import { viewContext } from "../views/view-context.ts";

const NEUTRAL = "neutral";

interface ContextOptions {
  at?: string;
  format: typeof NEUTRAL | keyof typeof nativeFormats;
}

export function addContext(program: Command, shell: Shell): void {
  program
    .command("context <session>")
    .description("show what a model reads at the leaf, or at any other entry")
    .option("--at <id>", "at this entry instead of the leaf")
    .addOption(
      new Option("--format <format>", "print the request for a provider, as JSON")
        .choices([NEUTRAL, ...Object.keys(nativeFormats)])
        .default(NEUTRAL),
    )
    .addHelpText(
      "after",
      `
Examples:
  espalier context session.jsonl
  espalier context session.jsonl --at before-cache
  espalier context session.jsonl --format anthropic > request.json`,
    )
    .action((ref: string, { at, format }: ContextOptions) => {
      // What a person is shown says what a compaction hides, which only the whole tree can tell.
      const isContextEnough = at === undefined && (shell.json || format !== NEUTRAL);
      const show = async (session: Session) => {
        const named = at === undefined ? session.leafId : entryNamed(session, at);
        const context = at === undefined ? await session.contextToSend() : session.contextAt(named);
        if (format !== NEUTRAL) {
          await printJson(shell, buildRequest<object>(context, { format: nativeFormats[format] }));
          return;
        }
        const leafId = at === undefined ? named : session.core.placeOf(named);
        await print(shell, contextValue(leafId, context), () => viewContext(session, leafId, context, shell));
      };
      return reading(shell, ref, show, { isContextEnough });
    });
}

function contextValue(leafId: Session["leafId"], context: SessionContext): object {
  const { tokens, messages, sources, model, thinkingLevel } = context;
  return { leafId, tokens, messages, sources, model, thinkingLevel };
}
