import { generateSummary } from "@espalier/compaction";
import { CHARS_PER_TOKEN, type ContextMessage } from "@espalier/session-tree";
import type { Command } from "commander";
import { CommandError } from "../failure.ts";
import { interruptible } from "../interruptible.ts";
import { plainText } from "../plain-text.ts";
import { print } from "../print.ts";
import { readySummarizer } from "../ready-summarizer.ts";
import type { Shell } from "../shell.ts";
import { readStdin } from "../stdin-lines.ts";

export function addSummarize(program: Command, shell: Shell): void {
  program
    .command("summarize")
    .description('summarise the messages in {"messages": […]} from stdin')
    .option("--instructions <text>", "what the summary shall attend to")
    .addHelpText(
      "after",
      `
Example:
  espalier context session.jsonl --json | espalier summarize`,
    )
    .action(async ({ instructions }: { instructions?: string }) => {
      const messages = await readMessages();
      const summarizer = await readySummarizer(shell);
      const answer = await interruptible(shell, "The summary", (act) =>
        generateSummary(messages, {
          ...act,
          summarizer,
          ...(instructions ? { customInstructions: instructions } : {}),
        }),
      );
      const { text: summary, usage = null, source = summarizer.name } = answer;
      const tokens = Math.ceil(summary.length / CHARS_PER_TOKEN);
      await print(shell, { summary, tokens, usage, source }, () => [plainText(summary)]);
    });
}

async function readMessages(): Promise<ContextMessage[]> {
  const given = parsed(String(await readStdin()));
  const messages = (given as { messages?: unknown } | null)?.messages;
  if (Array.isArray(messages) && messages.every(isMessageLike)) return messages;
  throw new CommandError("bad-input", 'Stdin is not {"messages": […]} with messages that have a role.');
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CommandError("bad-input", 'Stdin is not JSON; give it {"messages": […]}.', { cause });
  }
}

const isMessageLike = (message: unknown): message is ContextMessage =>
  typeof message === "object" && message !== null && typeof (message as { role?: unknown }).role === "string";
