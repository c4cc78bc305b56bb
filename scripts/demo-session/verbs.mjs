// What the directions of the screenplay append, by their verbs; answers are put together in answer.mjs.
import { priced } from "./bill.mjs";
import { makeBranchSummary } from "./branch-summary.mjs";
import { makeCompaction } from "./compaction.mjs";
import { parseDetails, parseDuration } from "./screenplay.mjs";

/** For each verb, what carries a direction out. */
export function createVerbs(stage) {
  const { recorder, tree } = stage;
  return {
    file: ({ words, body }) => void tree.put(words[0], `${body}\n`),
    model({ words: [provider, modelId], options }) {
      stage.wait(options, "2s");
      stage.settings = { ...stage.settings, provider, modelId };
      stage.append("model_change", { provider, modelId });
    },
    thinking({ words: [thinkingLevel], options }) {
      stage.wait(options, "2s");
      stage.settings = { ...stage.settings, thinkingLevel };
      stage.append("thinking_level_change", { thinkingLevel });
    },
    user({ body, options }) {
      stage.wait(options, "40s");
      stage.appendMessage({ role: "user", content: body });
    },
    picture({ body, options }) {
      const { message } = recorder.get(recorder.leafId);
      message.content = [
        { type: "text", text: message.content },
        { type: "image", data: body.replace(/\s/g, ""), mimeType: options.type },
      ];
    },
    shell({ body, words, options }) {
      stage.wait(options, "30s");
      const [first, ...rest] = body.split("\n");
      const run = {
        command: first.replace(/^\$ /, ""),
        output: rest.join("\n"),
        exitCode: Number(options.exit ?? 0),
        cancelled: false,
        truncated: false,
      };
      stage.appendMessage({
        role: "bashExecution",
        ...run,
        ...(words.includes("private") && { excludeFromContext: true }),
      });
    },
    name({ words }) {
      recorder.wait(900);
      stage.append("session_info", { name: words.join(" ") });
    },
    mark({ words }) {
      stage.marks.set(words[0], { id: recorder.leafId, files: tree.snapshot(), settings: stage.settings });
    },
    label({ words, options }) {
      stage.wait(options, "8s");
      stage.append("label", {
        targetId: options.at ? stage.markOf(options.at).id : recorder.leafId,
        label: words[0],
      });
    },
    unlabel({ options }) {
      stage.wait(options, "8s");
      stage.append("label", { targetId: stage.markOf(options.at).id });
    },
    state({ words, body }) {
      recorder.wait(12);
      stage.append("custom", { customType: words[0], data: JSON.parse(body) });
    },
    pin({ words, options }) {
      stage.wait(options, "10s");
      stage.append("custom", {
        customType: "espalier.pin",
        data: { targetId: stage.markOf(words[0]).id, pinned: true },
      });
    },
    notice({ words, body, options }) {
      stage.wait(options, "5s");
      const details = parseDetails(options);
      stage.append("custom_message", { customType: words[0], content: body, display: true, details });
    },
    shorten({ body, options }) {
      recorder.wait(15);
      const targetId = stage.markOf(options.at).id;
      stage.append("context_edit", { targetId, replacement: { content: [{ type: "text", text: body }] } });
    },
    usage({ words: [kind], options }) {
      stage.wait(options, "4m");
      const sent = recorder.path().findLast((entry) => entry.message?.usage?.totalTokens).message.usage;
      const cacheRead = sent.input + sent.cacheRead + sent.cacheWrite;
      const { provider, modelId: model } = stage.settings;
      stage.append("usage", {
        kind,
        provider,
        model,
        usage: priced(model, { input: 4, output: 1, cacheRead }),
      });
    },
    go({ words: [name], options }) {
      stage.wait(options, "20s");
      const mark = stage.markOf(name);
      tree.restore(mark.files);
      stage.settings = mark.settings;
      if (options.write === "leaf") recorder.appendLeaf(mark.id);
      else recorder.moveTo(mark.id);
    },
    summarise({ words: [name], body: prose }) {
      const mark = stage.markOf(name);
      const path = recorder.path();
      const left = path.slice(path.findIndex(({ id }) => id === mark.id) + 1);
      tree.restore(mark.files);
      stage.settings = mark.settings;
      recorder.moveTo(mark.id);
      recorder.wait(9_400);
      stage.append("branch_summary", makeBranchSummary({ left, prose, modelId: stage.settings.modelId }));
    },
    compact({ body, options }) {
      const { provider, modelId, thinkingLevel } = stage.settings;
      const durationMs = parseDuration(options.took);
      stage.wait(options, "20s");
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
      if (kept.find(({ message }) => message)?.id !== stage.markOf(options.first).id) {
        throw new Error(`keep=${options.keep} does not cut at ${options.first}.`);
      }
      stage.append("compaction", entry);
    },
    until: ({ words: [time] }) => recorder.waitUntil(time),
  };
}
