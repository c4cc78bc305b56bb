import {
  type AssistantMessage,
  type BashExecutionMessage,
  type ContentBlock,
  type ContextMessage,
  contentBlocks,
  fieldText,
} from "@espalier/session-tree";
import { Markdown, PlainText, TypedText } from "../text/markdown.tsx";
import { type FoundResult, Picture, ToolCall, ToolResult } from "./tool-call.tsx";

interface MessageViewProps {
  message: ContextMessage;
  /** Results of the calls, by the ids of the calls. */
  results?: ReadonlyMap<string, FoundResult>;
}

/** Content of a message of any role. */
export function MessageView({ message, results }: MessageViewProps) {
  switch (message.role) {
    case "assistant":
      return <Answer message={message} results={results} />;
    case "toolResult":
      return <ToolResult message={message} />;
    case "bashExecution":
      return <ShellRun message={message} />;
    case "compactionSummary":
    case "branchSummary":
      return <Markdown text={fieldText(message.summary)} />;
    case "user":
      return <Prompt message={message} />;
    default:
      return <Blocks message={message} />;
  }
}

function Answer({ message, results }: { message: AssistantMessage; results: MessageViewProps["results"] }) {
  return (
    <>
      {contentBlocks(message).map((block, at) =>
        block.type === "toolCall" ? (
          <ToolCall key={at} call={block} result={results?.get(block.id)} />
        ) : (
          <Block key={at} block={block} />
        ),
      )}
      {(message.stopReason === "error" || message.stopReason === "aborted") && (
        <p class="failure" role="note">
          {message.stopReason === "aborted" ? "Aborted. " : "Failed. "}
          {fieldText(message.errorMessage)}
        </p>
      )}
      {message.stopReason === "length" && <p class="failure">Cut off at the longest answer allowed.</p>}
    </>
  );
}

function Blocks({ message }: { message: ContextMessage }) {
  return contentBlocks(message as { content?: unknown }).map((block, at) => <Block key={at} block={block} />);
}

/** A prompt as the user typed it, with white space and line breaks. */
function Prompt({ message }: { message: ContextMessage }) {
  return contentBlocks(message as { content?: unknown }).map((block, at) =>
    block.type === "text" ? (
      <TypedText key={at} text={fieldText(block.text)} />
    ) : (
      <Block key={at} block={block} />
    ),
  );
}

function Block({ block }: { block: ContentBlock }) {
  if (block.type === "text") return <Markdown text={fieldText(block.text)} />;
  if (block.type === "image") return <Picture block={block} />;
  if (block.type !== "thinking") return <p class="quiet">A block of a kind that is not known here.</p>;
  const thinking = fieldText(block.thinking);
  return (
    <details class="thinking">
      <summary>
        {block.redacted || thinking === "" ? "Thinking, encrypted by the provider" : "Thinking"}
      </summary>
      {thinking !== "" && <Markdown text={thinking} />}
    </details>
  );
}

function ShellRun({ message }: { message: BashExecutionMessage }) {
  const { command, output, exitCode, cancelled, excludeFromContext } = message;
  const failed = (exitCode ?? 0) !== 0 || cancelled === true;
  return (
    <div class={`shell${failed ? " failed" : ""}`}>
      <PlainText text={`$ ${fieldText(command)}`} language="bash" />
      {output && <PlainText text={fieldText(output)} />}
      {failed && <span class="tag bad">{cancelled ? "cancelled" : `exit code ${fieldText(exitCode)}`}</span>}
      {excludeFromContext && <span class="tag">not in the context</span>}
    </div>
  );
}
