import { CHARS_PER_TOKEN } from "@espalier/session-tree";
import { cutText, escapeText, type FileLists, formatFileLists, unescapeText } from "@espalier/summarizer";

/** What stands beside the model's prose in a summary, so that it survives whatever the model writes. */
export interface SummaryBlocks {
  /** Entries the user pinned that the context no longer has as they were. */
  pinned: readonly { id: string; text: string }[];
  /** The first thing the user asked for on this path. */
  goal?: string;
  /** The newest thing the user said, when it is not kept as it was. */
  latestUserMessage?: string;
  files: FileLists;
}

/** No block takes more of the model's window than this. */
const LARGEST_SHARE = 1 / 8;

/** The whole text of a summary: the prose, then the blocks, each in its tag, their content escaped. */
export function joinSummary(prose: string, blocks: SummaryBlocks, contextWindow: number): string {
  const limitTokens = Math.floor(contextWindow * LARGEST_SHARE);
  const cut = (text: string) => cutText(text, limitTokens * CHARS_PER_TOKEN, "head-tail");
  const pinned = blocks.pinned.map(({ id, text }) => `[${id}] ${text}`).join("\n\n");
  const parts = [
    prose.trim(),
    block("pinned", cut(pinned)),
    block("goal", cut(blocks.goal ?? "")),
    block("latest-user-message", cut(blocks.latestUserMessage ?? "")),
    formatFileLists(blocks.files, limitTokens),
  ];
  return parts.filter((part) => part !== "").join("\n\n");
}

/** The model's prose in a summary: what is left without the blocks, which are written anew each time. */
export function proseOf(summary: string): string {
  return summary.replace(BLOCK, "").trim();
}

/** The goal that a summary carries; undefined where there is none. */
export function goalIn(summary: string): string | undefined {
  const found = /(?:^|\n)<goal>\n([\s\S]*?)\n<\/goal>/.exec(summary)?.[1];
  return found === undefined ? undefined : unescapeText(found);
}

const BLOCK = /(?:^|\n+)<(pinned|goal|latest-user-message|read-files|modified-files)>\n[\s\S]*?\n<\/\1>/g;

function block(tag: string, text: string): string {
  return text.trim() === "" ? "" : `<${tag}>\n${escapeText(text)}\n</${tag}>`;
}
