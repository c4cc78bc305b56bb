// An answer of the model: what it thinks, says and calls is put together part by part, and the results stand behind it.
import { billAnswer, priced } from "./bill.mjs";
import { buildContext } from "./context.mjs";
import { createRandom, randomId, randomSignature } from "./random.mjs";
import { parseDuration } from "./screenplay.mjs";
import { callArguments, usualDuration } from "./tool-call.mjs";
import { ToolError } from "./working-tree.mjs";

const APIS = { anthropic: "anthropic-messages", openai: "openai-responses" };

/** The clock on Ada's wall; programs print it where the screenplay has "{clock}". */
const wallClock = (time) => new Date(time).toLocaleTimeString("en-GB", { timeZone: "America/Los_Angeles" });

/**
 * The directions that make an answer, by their verbs: `begin` starts one, `parts` add to it, and `finish` appends it,
 * before anything else is.
 */
export function createAnswers(stage) {
  const { recorder, tree } = stage;
  const signatures = createRandom(0x51612e);
  const callIds = createRandom(0xca11);
  let draft;

  const begin = ({ options }) => {
    draft = { options: { ...options }, content: [], runs: [] };
  };

  /** Ends the answer that is being put together: appends it, and the results of its calls behind it. */
  const finish = () => {
    if (!draft) return;
    const { options, content, runs } = draft;
    draft = undefined;
    stage.wait(options, "700ms");
    const startedAt = recorder.now;
    const { provider, modelId: model } = stage.settings;
    const failed = options.stop === "error";
    const path = recorder.path();
    const context = buildContext(path).map(({ message }) => message);
    const usage = failed ? priced(model, {}) : billAnswer({ model, context, path, content, now: startedAt });
    recorder.wait(failed ? 1_900 : 1_300 + usage.output * 17);
    const calls = content.some((block) => block.type === "toolCall");
    const stopReason = options.stop ?? (calls ? "toolUse" : "stop");
    const ended = failed ? { errorMessage: options.message } : {};
    if (stopReason === "aborted") ended.errorMessage = "The request was aborted.";
    const message = {
      role: "assistant",
      content,
      api: APIS[provider],
      provider,
      model,
      usage,
      stopReason,
      ...ended,
    };
    stage.appendMessage(message, startedAt);
    if (stopReason === "toolUse") for (const run of runs) appendResult(run);
  };

  const appendResult = ({ block, output, took }) => {
    const startedAt = recorder.now;
    recorder.wait(took ?? usualDuration(block.name));
    let result;
    try {
      result = output ?? { ...tree.tools[block.name](block.arguments), isError: false };
    } catch (error) {
      if (!(error instanceof ToolError)) throw error;
      result = { text: error.message, isError: true };
    }
    const { text, isError, details } = result;
    const content = [{ type: "text", text: text.replaceAll("{clock}", wallClock(startedAt)) }];
    const message = { role: "toolResult", toolCallId: block.id, toolName: block.name, content, isError };
    stage.appendMessage(details ? { ...message, details } : message);
  };

  const parts = {
    think({ body }) {
      const bytes = 150 + Math.min(240, Math.floor(body.length / 3));
      const thinkingSignature = randomSignature(signatures, bytes - (bytes % 3));
      draft.content.push({ type: "thinking", thinking: body, thinkingSignature });
    },
    say({ body }) {
      draft.content.push({ type: "text", text: body });
    },
    call(direction) {
      const name = direction.words[0];
      const id =
        stage.settings.provider === "openai"
          ? `call_${randomId(callIds, 24)}`
          : `toolu_01${randomId(callIds, 22)}`;
      const block = { type: "toolCall", id, name, arguments: callArguments(direction) };
      draft.content.push(block);
      const { took } = direction.options;
      draft.runs.push({ block, ...(took && { took: parseDuration(took) }) });
    },
    output({ body, options }) {
      const exit = Number(options.exit ?? 0);
      const text = exit === 0 ? body : `${body}\n\nThe command ended with exit code ${exit}.`;
      draft.runs.at(-1).output = { text, isError: exit !== 0 };
    },
    failure({ body }) {
      draft.options.message = body;
    },
  };

  return { begin, parts, finish };
}
