import { jsonText } from "@espalier/jsonl-stream";
import {
  type ContentBlock,
  contentBlocks,
  fieldText,
  type ToolCallBlock,
  type ToolResultMessage,
} from "@espalier/session-tree";
import { useMemo } from "preact/hooks";
import { gistOfCall } from "../model/entry-gist.ts";
import { DiffView } from "./diff-view.tsx";
import { type FileChange, fileChangeIn, patchLines } from "./file-change.ts";
import { languageOf } from "./highlight.ts";
import { PlainText } from "./markdown.tsx";
import { Picture } from "./picture.tsx";
import { visibleControls } from "./visible-controls.ts";

interface ToolCallProps {
  call: ToolCallBlock;
  result: FoundResult | undefined;
}

/** A result that was found for a call. */
export interface FoundResult {
  row: number;
  message: ToolResultMessage;
}

/** A call and its result, as one thing: what was asked on the first line, the rest when somebody wants to see it. */
export function ToolCall({ call, result }: ToolCallProps) {
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

/** The patch that a tool recorded beside what it said to the model. */
function patchIn(details: unknown): string | undefined {
  if (typeof details !== "object" || details === null) return undefined;
  const { diff, patch } = details as { diff?: unknown; patch?: unknown };
  return [diff, patch].find((text): text is string => typeof text === "string" && text !== "");
}

interface ToolResultProps {
  message: ToolResultMessage;
  hasChange?: boolean;
}

/** What a tool said. */
export function ToolResult({ message, hasChange = false }: ToolResultProps) {
  const blocks = contentBlocks(message);
  return (
    <div class={`result${message.isError ? " failed" : ""}${hasChange ? " brief" : ""}`}>
      {blocks.map((block, at) => (
        <ResultBlock key={at} block={block} />
      ))}
    </div>
  );
}

function ResultBlock({ block }: { block: ContentBlock }) {
  if (block.type === "image") return <Picture block={block} />;
  return block.type === "text" ? <PlainText text={fieldText(block.text)} /> : null;
}
