import { type ContextMessage, contentBlocks, type ToolResultMessage } from "@espalier/session-tree";
import { COMPACT_SUMMARY_PROMPT } from "../prompts.ts";
import type { PolicyLog } from "./events.ts";

/** Storage of results that were moved out of a context. It has copies: the log keeps every original. */
export interface OffloadStorage {
  /** Returns the path of a text, stored or not; the same text always has the same path. */
  pathFor(text: string): string;
  /**
   * Returns whether a path is one that {@link pathFor} could return, even if there is no file. Other paths are never
   * read.
   */
  owns(path: string): boolean;
  /** Returns whether there is a file at a path. */
  has(path: string): Promise<boolean>;
  /** Stores a text; resolves to its path when the text is completely written. */
  write(text: string): Promise<string>;
  /** Returns the text at a path; undefined when the file is missing or cannot be read. */
  read(path: string): Promise<string | undefined>;
  /** Removes one of the paths of {@link list}; throws when it cannot be removed. */
  remove(path: string): Promise<void>;
  /** Lists the paths of all stored texts, and of unfinished files of interrupted writers. */
  list(): Promise<string[]>;
}

/** Keeps results in memory, under numbered paths: for tests, and for contexts without a file. */
export function memoryOffloadStorage(folder = "offloaded"): OffloadStorage {
  const numbers = new Map<string, number>();
  const texts = new Map<string, string>();
  const owned = new RegExp(`^${folder.replace(/[^A-Za-z0-9/_-]/g, "\\$&")}/\\d+\\.txt$`);
  const pathFor = (text: string) => {
    if (!numbers.has(text)) numbers.set(text, numbers.size + 1);
    return `${folder}/${numbers.get(text)}.txt`;
  };
  return {
    pathFor,
    owns: (path) => owned.test(path),
    has: async (path) => texts.has(path),
    async write(text) {
      texts.set(pathFor(text), text);
      return pathFor(text);
    },
    read: async (path) => texts.get(path),
    async remove(path) {
      texts.delete(path);
    },
    list: async () => [...texts.keys()],
  };
}

/**
 * Returns messages with the content of offloaded results read back; a result whose file is missing gets a text that
 * says so. Only paths of the storage are read: a tool's own text that looks like a reference is unchanged.
 */
export async function restoreOffloadedContent(
  messages: readonly ContextMessage[],
  storage: OffloadStorage,
): Promise<ContextMessage[]> {
  return Promise.all(
    messages.map(async (message) => {
      const path = offloadedPath(message);
      if (path === undefined || !storage.owns(path)) return message;
      return withText(message as ToolResultMessage, (await storage.read(path)) ?? contentUnavailable(path));
    }),
  );
}

/** Returns the paths that messages name; {@link restoreOffloadedContent} reads those of its storage. */
export function offloadedPaths(messages: readonly ContextMessage[]): string[] {
  return messages.map(offloadedPath).filter((path) => path !== undefined);
}

/**
 * Removes every file of a storage that no message refers to; returns the removed paths. A file that cannot be removed
 * stays and is reported as a warning, and so do all files if they cannot be listed: the compaction has succeeded in any
 * case.
 */
export async function cleanupOffloadedFiles(
  storage: OffloadStorage,
  referenced: ReadonlySet<string>,
  log: PolicyLog = console,
): Promise<string[]> {
  const deleted: string[] = [];
  for (const path of await listed(storage, log)) {
    if (referenced.has(path)) continue;
    try {
      await storage.remove(path);
      deleted.push(path);
    } catch (error) {
      log.warn(`The offloaded file ${path} could not be removed; it can be deleted by hand.`, { error });
    }
  }
  return deleted;
}

async function listed(storage: OffloadStorage, log: PolicyLog): Promise<string[]> {
  try {
    return await storage.list();
  } catch (error) {
    log.warn("Offloaded files could not be listed, and none was removed; they can be deleted by hand.", {
      error,
    });
    return [];
  }
}

const REFERENCE = "Tool result is at: ";

/** Reference in the context to a result that is in a file. */
export const offloadReference = (path: string): string => `${REFERENCE}${path}`;

/** Text for a summarizer in place of a result whose file is missing. */
export const contentUnavailable = (path: string): string => `[Content unavailable: ${path}]`;

/** Returns the path that a result has instead of its content; undefined for any other message. */
export function offloadedPath(message: ContextMessage): string | undefined {
  return message.role === "toolResult" ? referencedPath(message) : undefined;
}

/** Returns the path in a content that is only a reference; undefined for any other content. */
export function referencedPath(content: { content?: unknown }): string | undefined {
  const blocks = contentBlocks(content);
  const [only] = blocks;
  if (blocks.length !== 1 || only?.type !== "text" || typeof only.text !== "string") return undefined;
  const isReference = only.text.startsWith(REFERENCE) && !only.text.includes("\n");
  return isReference ? only.text.slice(REFERENCE.length) : undefined;
}

/** Returns a result with this text as its content. */
export function withText(message: ToolResultMessage, text: string): ToolResultMessage {
  return { ...message, content: [{ type: "text", text }] };
}

/** Limit of a summary as a multiple of its target (origins 003: 20 % more). */
export const OUTPUT_MARGIN = 1.2;

/** First words of a summary of this policy. */
export const COMPRESSED_HISTORY_HEADING = "[Compressed History]\n\n";

/**
 * Limits of tool results, tried in this order: results are first shown whole, because they were read back for the
 * summary.
 */
export const WHOLE_RESULTS_FIRST: readonly number[] = [Number.POSITIVE_INFINITY, 2_000, 500, 120];

/** Returns the system prompt for a summary of about so many tokens. */
export function compactSummaryPrompt(targetTokens: number): string {
  return COMPACT_SUMMARY_PROMPT.replace("{targetTokens}", String(targetTokens));
}
