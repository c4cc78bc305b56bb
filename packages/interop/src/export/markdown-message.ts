import { jsonText } from "@espalier/jsonl-stream";
import {
  bashExecutionText,
  type ContentBlock,
  type ContextMessage,
  contentBlocks,
  fieldText,
  type ToolResultMessage,
} from "@espalier/session-tree";
import { cutText } from "@espalier/summarizer";
import { fenced, inline, quoted } from "./markdown-text.ts";

/** Characters of a tool's result, a call's arguments or a shell's output that are shown; the rest is counted. */
const SHOWN = 2_000;

/** What a message says, as paragraphs. */
export function messageParagraphs(message: ContextMessage): string[] {
  switch (message.role) {
    case "toolResult":
      return resultParagraphs(message);
    case "bashExecution":
      return [fenced(cutText(bashExecutionText(message), SHOWN))];
    case "compactionSummary":
    case "branchSummary":
      return [quoted(fieldText(message.summary))];
    case "system":
      return [
        ...contentBlocks(message).map(blockParagraph),
        ...Object.entries(message.sections ?? {}).map(([name, text]) =>
          text === null
            ? `Section ${inline(name)} removed`
            : `**${inline(name)}**\n\n${quoted(fieldText(text))}`,
        ),
      ];
    case "assistant":
      return [...contentBlocks(message).map(blockParagraph), ...failure(message)];
    default:
      return contentBlocks(message).map(blockParagraph);
  }
}

/** Results are what they are, and can be long: in a fence, and cut. */
function resultParagraphs(message: ToolResultMessage): string[] {
  const paragraphs = contentBlocks(message).map((block) =>
    block.type === "text" ? fenced(cutText(fieldText(block.text), SHOWN)) : blockParagraph(block),
  );
  return paragraphs.length > 0 ? paragraphs : ["(no output)"];
}

function blockParagraph(block: ContentBlock): string {
  switch (block.type) {
    case "text":
      return quoted(fieldText(block.text));
    case "thinking":
      return block.redacted
        ? "**Thinking** (encrypted)"
        : `**Thinking**\n\n${quoted(fieldText(block.thinking))}`;
    case "toolCall": {
      const given = jsonText(block.arguments, 2);
      return `**Call** ${inline(block.name)}\n\n${fenced(cutText(given, SHOWN), "json")}`;
    }
    case "image": {
      const bytes = Math.floor((fieldText(block.data).length * 3) / 4);
      return `(picture, ${inline(block.mimeType)}, ${bytes} bytes)`;
    }
    default:
      return `(content of type ${inline((block as { type: string }).type)})`;
  }
}

function failure({ stopReason, errorMessage }: ContextMessage & { role: "assistant" }): string[] {
  if (stopReason !== "error" && stopReason !== "aborted") return [];
  const said = typeof errorMessage === "string" && errorMessage !== "" ? `\n\n${quoted(errorMessage)}` : "";
  return [`**${stopReason === "error" ? "Failed" : "Aborted"}**: not part of the context.${said}`];
}
