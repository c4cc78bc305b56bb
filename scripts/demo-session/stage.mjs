// Carries the directions of the screenplay out: each verb is a function that appends what a real run would have.
import { billAnswer, priced } from "./bill.mjs";
import { makeBranchSummary } from "./branch-summary.mjs";
import { makeCompaction } from "./compaction.mjs";
import { buildContext } from "./context.mjs";
import { createRandom, randomId, randomSignature } from "./random.mjs";
import { parseDetails, parseDuration } from "./screenplay.mjs";
import { callArguments, usualDuration } from "./tool-call.mjs";
import { createWorkingTree, ToolError } from "./working-tree.mjs";

const APIS = { anthropic: "anthropic-messages", openai: "openai-responses" };

/** The clock on Ada's wall; programs print it where the screenplay has "{clock}". */
const wallClock = (time) => new Date(time).toLocaleTimeString("en-GB", { timeZone: "America/Los_Angeles" });

/** Plays directions onto a recorder. `marks` are the places the screenplay has named, `files` the project at the end. */
export function playOnto(recorder, directions) {
  const tree = createWorkingTree();
  const signatures = createRandom(0x51612e);
  const callIds = createRandom(0xca11);
  const marks = new Map();
  let settings = { provider: undefined, modelId: undefined, thinkingLevel: "off" };
  let draft;

  const markOf = (name) => {
    if (!marks.has(name)) throw new Error(`No entry is marked ${name}.`);
    return marks.get(name);
  };
  const append = (type, fields) => recorder.append({ type, ...fields });
  const appendMessage = (message, startedAt = recorder.now) =>
    append("message", { message: { ...message, timestamp: startedAt } });
  const wait = ({ after }, fallback) => recorder.wait(parseDuration(after ?? fallback));

  /** Ends the answer that is being put together: appends it, and the results of its calls behind it. */
  const finish = () => {
    if (!draft) return;
    const { options, content, runs } = draft;
    draft = undefined;
    recorder.wait(options.after ? parseDuration(options.after) : 700);
    const startedAt = recorder.now;
    const { provider, modelId: model } = settings;
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
    appendMessage(message, startedAt);
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
    appendMessage(details ? { ...message, details } : message);
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
        settings.provider === "openai" ? `call_${randomId(callIds, 24)}` : `toolu_01${randomId(callIds, 22)}`;
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

  const verbs = {
    file: ({ words, body }) => void tree.put(words[0], `${body}\n`),
    model({ words: [provider, modelId], options }) {
      wait(options, "2s");
      settings = { ...settings, provider, modelId };
      append("model_change", { provider, modelId });
    },
    thinking({ words: [thinkingLevel], options }) {
      wait(options, "2s");
      settings = { ...settings, thinkingLevel };
      append("thinking_level_change", { thinkingLevel });
    },
    user({ body, options }) {
      wait(options, "40s");
      appendMessage({ role: "user", content: body });
    },
    picture({ body, options }) {
      const { message } = recorder.get(recorder.leafId);
      message.content = [
        { type: "text", text: message.content },
        { type: "image", data: body.replace(/\s/g, ""), mimeType: options.type },
      ];
    },
    answer({ options }) {
      draft = { options: { ...options }, content: [], runs: [] };
    },
    shell({ body, words, options }) {
      wait(options, "30s");
      const [first, ...rest] = body.split("\n");
      const run = {
        command: first.replace(/^\$ /, ""),
        output: rest.join("\n"),
        exitCode: Number(options.exit ?? 0),
        cancelled: false,
        truncated: false,
      };
      appendMessage({
        role: "bashExecution",
        ...run,
        ...(words.includes("private") && { excludeFromContext: true }),
      });
    },
    name({ words }) {
      recorder.wait(900);
      append("session_info", { name: words.join(" ") });
    },
    mark({ words }) {
      marks.set(words[0], { id: recorder.leafId, files: tree.snapshot(), settings });
    },
    label({ words, options }) {
      wait(options, "8s");
      append("label", { targetId: options.at ? markOf(options.at).id : recorder.leafId, label: words[0] });
    },
    unlabel({ options }) {
      wait(options, "8s");
      append("label", { targetId: markOf(options.at).id });
    },
    state({ words, body }) {
      recorder.wait(12);
      append("custom", { customType: words[0], data: JSON.parse(body) });
    },
    pin({ words, options }) {
      wait(options, "10s");
      append("custom", { customType: "espalier.pin", data: { targetId: markOf(words[0]).id, pinned: true } });
    },
    notice({ words, body, options }) {
      wait(options, "5s");
      const details = parseDetails(options);
      append("custom_message", { customType: words[0], content: body, display: true, details });
    },
    shorten({ body, options }) {
      recorder.wait(15);
      const targetId = markOf(options.at).id;
      append("context_edit", { targetId, replacement: { content: [{ type: "text", text: body }] } });
    },
    usage({ words: [kind], options }) {
      wait(options, "4m");
      const sent = recorder.path().findLast((entry) => entry.message?.usage?.totalTokens).message.usage;
      const cacheRead = sent.input + sent.cacheRead + sent.cacheWrite;
      const { provider, modelId: model } = settings;
      append("usage", { kind, provider, model, usage: priced(model, { input: 4, output: 1, cacheRead }) });
    },
    go({ words: [name], options }) {
      wait(options, "20s");
      const mark = markOf(name);
      tree.restore(mark.files);
      settings = mark.settings;
      if (options.write === "leaf") recorder.appendLeaf(mark.id);
      else recorder.moveTo(mark.id);
    },
    summarise({ words: [name], body: prose }) {
      const mark = markOf(name);
      const path = recorder.path();
      const left = path.slice(path.findIndex(({ id }) => id === mark.id) + 1);
      tree.restore(mark.files);
      settings = mark.settings;
      recorder.moveTo(mark.id);
      recorder.wait(9_400);
      append("branch_summary", makeBranchSummary({ left, prose, modelId: settings.modelId }));
    },
    compact({ body, options }) {
      const { provider, modelId, thinkingLevel } = settings;
      const durationMs = parseDuration(options.took);
      wait(options, "20s");
      recorder.wait(durationMs);
      const fields = {
        path: recorder.path(),
        prose: body,
        keepRecentTokens: Number(options.keep),
        durationMs,
      };
      const entry = makeCompaction({ ...fields, model: { provider, modelId }, thinkingLevel });
      const kept = recorder
        .path()
        .slice(recorder.path().findIndex(({ id }) => id === entry.firstKeptEntryId));
      if (kept.find(({ message }) => message)?.id !== markOf(options.first).id) {
        throw new Error(`keep=${options.keep} does not cut at ${options.first}.`);
      }
      append("compaction", entry);
    },
    until: ({ words: [time] }) => recorder.waitUntil(time),
  };

  for (const direction of directions) {
    const { verb, place } = direction;
    try {
      if (Object.hasOwn(parts, verb)) parts[verb](direction);
      else {
        finish();
        if (!Object.hasOwn(verbs, verb)) throw new Error(`There is no direction called ${verb}.`);
        verbs[verb](direction);
      }
    } catch (cause) {
      throw new Error(`${place}: ${/** @type {Error} */ (cause).message}`, { cause });
    }
  }
  finish();
  return { marks, files: tree.files() };
}
