import type { ToolDefinition } from "../message.ts";
import type { SessionContext } from "../session-context.ts";
import { SessionTreeError } from "../session-tree-error.ts";
import { heal } from "./heal.ts";
import type { RequestFormat } from "./request-format.ts";
import { foldSystem, refuseEmptySchemas } from "./system-prompt.ts";

/** How a context becomes a request. */
export interface RequestOptions<Request> {
  format: RequestFormat<Request>;
  /** The model that will read it; the context's own by default. Thinking of any other model is left out. */
  model?: SessionContext["model"] | undefined;
  /** Goes before what the session's own system messages say. */
  system?: string | undefined;
  /** Go before the tools that the session's own system messages declare, and replace those of the same name. */
  tools?: readonly ToolDefinition[] | undefined;
}

/**
 * The request for one provider, valid whatever the session went through (T7): messages, and system prompt and tools
 * where there are any. What else a request has (model, limits, thinking budget) is the caller's to add. The log is not
 * touched; arguments of calls and schemas of tools may be the stored objects themselves, so add to the request, and
 * change nothing inside those.
 *
 * @throws SessionTreeError `empty-context` when nothing in the context says anything to a model; `bad-tool`
 */
export function buildRequest<Request>(context: SessionContext, options: RequestOptions<Request>): Request {
  const { format, model = context.model, system, tools } = options;
  const { callIdLength, toolNameLength } = format;
  refuseEmptySchemas(tools);
  const carried = format.carry?.(context, model);
  const turns = heal(carried?.context ?? context, {
    model,
    callIdLength,
    toolNameLength,
    acceptsThinking: (block, answer) => format.acceptsThinking(block, answer),
  });
  if (turns.length === 0) {
    throw new SessionTreeError(
      "empty-context",
      "There is nothing to send: no message at this place of the session says anything to a model. Append a user message first, or choose a later entry.",
    );
  }
  const request = format.render({
    ...foldSystem(context.messages, { system, tools, toolNameLength }),
    turns,
  });
  return carried ? carried.restore(request) : request;
}
