import { jsonText } from "@espalier/jsonl-stream";
import {
  type AssistantMessage,
  type BashExecutionMessage,
  type ContentBlock,
  type ContextMessage,
  contentBlocks,
  fieldText,
  type ImageBlock,
  isRecord,
  type ToolCallBlock,
  type ToolResultMessage,
} from "@espalier/session-tree";
import { diffLines } from "diff";
import { useMemo, useState } from "preact/hooks";
import { gistOfCall } from "../../model/entry-gist.ts";
import { languageOf } from "../text/highlight.ts";
import { Markdown, PlainText, TypedText } from "../text/markdown.tsx";
import { visibleControls } from "../text/visible-controls.ts";

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
    case "user":
      // As the user typed it, with white space and line breaks.
      return <Blocks message={message} Text={TypedText} />;
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

function Blocks({ message, Text }: { message: ContextMessage; Text?: typeof TypedText }) {
  return contentBlocks(message).map((block, at) => <Block key={at} block={block} Text={Text} />);
}

function Block({ block, Text = Markdown }: { block: ContentBlock; Text?: typeof TypedText | undefined }) {
  if (block.type === "text") return <Text text={fieldText(block.text)} />;
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
    <div>
      <PlainText text={`$ ${fieldText(command)}`} language="bash" />
      {output && <PlainText text={fieldText(output)} />}
      {failed && <span class="tag bad">{cancelled ? "cancelled" : `exit code ${fieldText(exitCode)}`}</span>}
      {excludeFromContext && <span class="tag">not in the context</span>}
    </div>
  );
}

interface ToolCallProps {
  call: ToolCallBlock;
  result: FoundResult | undefined;
}

/** Result of a tool call, with the row of its entry. */
export interface FoundResult {
  row: number;
  message: ToolResultMessage;
}

/** A call and its result as one block: the call on the first line, the rest unfolded. */
function ToolCall({ call, result }: ToolCallProps) {
  const change = useMemo(() => fileChangeIn(call.arguments), [call]);
  const failed = result?.message.isError === true;
  return (
    <details
      class={`call${failed ? " failed" : ""}`}
      open={change !== undefined || failed}
      data-row={result?.row}
    >
      <summary>
        <span class="tool">{visibleControls(fieldText(call.name))}</span>
        <bdi class="gist">{gistOfCall(call)}</bdi>
        {failed && <span class="tag bad">failed</span>}
        {result === undefined && <span class="tag">no result</span>}
      </summary>
      <CallArguments call={call} result={result} change={change} />
      {result && <ToolResult message={result.message} hasChange={change !== undefined} />}
    </details>
  );
}

function CallArguments({ call, result, change }: ToolCallProps & { change: FileChange | undefined }) {
  if (change) {
    const patch = patchIn(result?.message.details);
    if (patch !== undefined) return <DiffView lines={patchLines(patch)} />;
    return change.parts.map((lines, at) => <DiffView key={at} lines={lines} />);
  }
  const { arguments: given } = call;
  const entries = typeof given === "object" && given !== null ? Object.entries(given) : [];
  const path = entries.find(([name]) => /path|file/i.test(name))?.[1];
  return (
    <dl class="arguments">
      {entries.map(([name, value]) => (
        <div key={name}>
          <dt>{visibleControls(name)}</dt>
          <dd>
            {typeof value === "string" ? (
              <PlainText text={value} language={languageOfArgument(name, path)} />
            ) : (
              <PlainText text={jsonText(value, 2)} language="json" />
            )}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function languageOfArgument(name: string, path: unknown): string | undefined {
  if (name === "command" || name === "cmd") return "bash";
  return /^(content|text|code)$/.test(name) && typeof path === "string" ? languageOf(path) : undefined;
}

/** Returns the patch that a tool recorded in the details of its result (`diff`, else `patch`); undefined without one. */
function patchIn(details: unknown): string | undefined {
  if (typeof details !== "object" || details === null) return undefined;
  const { diff, patch } = details as { diff?: unknown; patch?: unknown };
  return [diff, patch].find((text): text is string => typeof text === "string" && text !== "");
}

function ToolResult({ message, hasChange = false }: { message: ToolResultMessage; hasChange?: boolean }) {
  return (
    <div class={`result${message.isError ? " failed" : ""}${hasChange ? " brief" : ""}`}>
      {contentBlocks(message).map((block, at) => {
        if (block.type === "image") return <Picture key={at} block={block} />;
        return block.type === "text" && <PlainText key={at} text={fieldText(block.text)} />;
      })}
    </div>
  );
}

/** Number of lines that are shown at first. */
const FIRST_SHOWN = 60;

function DiffView({ lines }: { lines: readonly ChangedLine[] }) {
  const [shown, setShown] = useState(FIRST_SHOWN);
  return (
    <div class="diff">
      <pre>
        {lines.slice(0, shown).map(({ sign, text }, at) => (
          <div key={at} class={sign === "+" ? "added" : sign === "-" ? "removed" : "stayed"}>
            <span class="sign">{sign}</span>
            {visibleControls(text)}
          </div>
        ))}
      </pre>
      {lines.length > shown && (
        <button type="button" class="more" onClick={() => setShown(lines.length)}>
          Show all {lines.length} lines
        </button>
      )}
    </div>
  );
}

interface ChangedLine {
  sign: "+" | "-" | " ";
  text: string;
}

interface FileChange {
  path: string;
  /** Lines of each edit, in order: removed, added and unchanged ones. */
  parts: ChangedLine[][];
}

/** Names that tools use for the replaced text and the new text. */
const PAIRS = [
  ["oldText", "newText"],
  ["old_string", "new_string"],
  ["old_str", "new_str"],
  ["old", "new"],
] as const;

/** Maximum length in characters of two texts together that are compared line by line; longer ones are shown whole. */
const LONGEST = 40_000;

/** Maximum number of changed lines that are compared: the comparison takes quadratic time. */
const MOST_CHANGED = 500;

/** Returns the file change that a call requests, for a tool of any name; undefined when its arguments have none. */
export function fileChangeIn(given: unknown): FileChange | undefined {
  if (!isRecord(given)) return undefined;
  const path = [given["path"], given["file_path"], given["filePath"], given["filename"]].find(isText);
  if (path === undefined) return undefined;
  const edits = Array.isArray(given["edits"]) ? given["edits"] : [given];
  const parts = edits.flatMap((edit) => {
    const texts = isRecord(edit) ? pairIn(edit) : undefined;
    return texts ? [comparedLines(texts[0], texts[1])] : [];
  });
  return parts.length > 0 ? { path, parts } : undefined;
}

/** Parses a patch: `+` and `-` at the beginning of a line are its sign; all other lines are unchanged ones. */
export function patchLines(patch: string): ChangedLine[] {
  return patch.split("\n").map((line) => {
    const sign = line[0] === "+" || line[0] === "-" ? line[0] : " ";
    return { sign, text: sign === " " && line[0] !== " " ? line : line.slice(1) };
  });
}

function pairIn(edit: Readonly<Record<string, unknown>>): [string, string] | undefined {
  for (const [before, after] of PAIRS) {
    const [old, fresh] = [edit[before], edit[after]];
    if (isText(old) && isText(fresh)) return [old, fresh];
  }
  return undefined;
}

function comparedLines(before: string, after: string): ChangedLine[] {
  const isShort = before.length + after.length <= LONGEST;
  const compared = isShort ? diffLines(before, after, { maxEditLength: MOST_CHANGED }) : undefined;
  if (!compared) return [...signed("-", before), ...signed("+", after)];
  return compared.flatMap(({ value, added, removed }) => signed(added ? "+" : removed ? "-" : " ", value));
}

const signed = (sign: ChangedLine["sign"], text: string): ChangedLine[] =>
  text
    .replace(/\n$/, "")
    .split("\n")
    .map((line) => ({ sign, text: line }));
const isText = (value: unknown): value is string => typeof value === "string";

/** Types of images that are shown. SVG may contain programs and is not shown. */
const SHOWN = /^image\/(png|jpeg|gif|webp)$/;

/** An image of a message. Its bytes are in the session; nothing is fetched. */
function Picture({ block }: { block: ImageBlock }) {
  const [broken, setBroken] = useState(false);
  const data = fieldText(block.data);
  const isShown = SHOWN.test(fieldText(block.mimeType)) && /^[A-Za-z0-9+/=\s]*$/.test(data) && !broken;
  if (!isShown) return <p class="quiet">An image that is not shown ({fieldText(block.mimeType)})</p>;
  return (
    <img
      class="picture"
      alt="Part of the conversation"
      src={`data:${block.mimeType};base64,${data}`}
      onError={() => setBroken(true)}
    />
  );
}
