import { mkdirSync, readdirSync, readFileSync, truncateSync } from "node:fs";
import { join } from "node:path";
import {
  createSession,
  openSession,
  POLICY_NAMES,
  type PolicyName,
  type PolicySettings,
  type Session,
  type Turn,
} from "@espalier/engine";
import { fromAiSdk } from "@espalier/interop";
import { EspalierError } from "@espalier/jsonl-stream";
import { compaction, isMessage, modelChange } from "@espalier/session-tree";
import { type Findings, type Harness, SeededRandom } from "../harness.ts";
import {
  KEY,
  picture,
  prose,
  randomAnswer,
  type StrictServer,
  startStrictServer,
} from "./lives/strict-server.ts";
import { type Protocol, protocols, providerAt, providerNames, toolNames } from "./lives/wire.ts";

/**
 * Random lives under each policy, on Anthropic, Chat Completions, Responses and the AI SDK, through their SDKs: a server
 * that keeps to its provider's documentation refuses no request. `count` is the number of turns of each life.
 */
export const lives: Harness = {
  async run({ seed, isShort, count = isShort ? 12 : 300, folder }, findings) {
    // The SDK would warn of models that it does not know.
    Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false });
    for (const [at, protocol] of protocols.entries())
      for (const [nth, policy] of POLICY_NAMES.entries()) {
        const own = join(folder, `${protocol}-${policy}`);
        mkdirSync(own, { recursive: true });
        await live({ protocol, policy, seed: seed * 100 + at * 10 + nth, folder: own }, count, findings);
        for (const name of readdirSync(own, { recursive: true, encoding: "utf8" }))
          if (name.endsWith(".jsonl") && readFileSync(join(own, name), "utf8").includes(KEY))
            findings.fault(`${protocol}, ${policy}: a key is in ${name}.`);
        findings.count("lives");
      }
  },
};

interface LifeOptions {
  protocol: Protocol;
  policy: PolicyName;
  seed: number;
  /** Folder of the sessions. */
  folder: string;
}

/** Limits low enough that every policy compacts, and high enough for images. */
const OPTIONS = {
  log: { warn() {}, error() {} },
  compaction: {
    contextWindow: 40_000,
    reserveTokens: 2_000,
    keepRecentTokens: 4_000,
    requestBytes: 8_000_000,
  },
};

const POLICY_SETTINGS: Partial<Record<PolicyName, PolicySettings>> = {
  "message-count": { maxMessages: 24, keepLast: 6 },
  offload: { triggerTokens: 2_000, offloadThreshold: 1_000 },
};

/**
 * A random life of one session: prompts, answers, calls, results, images, keys in thoughts, approvals; aborts, crashes,
 * forks, navigation with summaries, hiding, compacting, and changes of model, in any order. A request that the server
 * refuses is a fault.
 */
async function live(options: LifeOptions, turns: number, findings: Findings): Promise<void> {
  const server = await startStrictServer(options.protocol);
  const life = new Life(options, server, findings);
  try {
    await life.begin();
    for (let turn = 1; turn <= turns; turn++) await life.turn(turn);
    await life.end();
  } finally {
    await server.close();
  }
  findings.count("requests", server.asked);
}

class Life {
  readonly #options: LifeOptions;
  readonly #server: StrictServer;
  readonly #findings: Findings;
  readonly #random: SeededRandom;
  #session!: Session;
  /** The model that answers, as entries record it. */
  #model: { provider: string; modelId: string };
  #answers = 0;
  #when = "";

  constructor(options: LifeOptions, server: StrictServer, findings: Findings) {
    this.#options = options;
    this.#server = server;
    this.#findings = findings;
    this.#random = new SeededRandom(options.seed);
    this.#model = { provider: providerNames[options.protocol], modelId: "first" };
  }

  async begin(): Promise<void> {
    this.#session = await createSession({ ...this.#opening, file: join(this.#options.folder, "life.jsonl") });
  }

  async end(): Promise<void> {
    for (const entry of this.#session.getEntries())
      if (compaction.is(entry) && (entry.details as { reason?: string }).reason !== "manual")
        this.#findings.count("compactions by themselves");
    await this.#session.close();
  }

  get #opening() {
    const { policy, folder } = this.#options;
    const policySettings = POLICY_SETTINGS[policy];
    return { ...OPTIONS, home: folder, cwd: folder, policy, ...(policySettings ? { policySettings } : {}) };
  }

  /** Returns true with a probability of one in `inSoMany`. */
  #once(inSoMany: number): boolean {
    return this.#random.below(inSoMany) === 0;
  }

  async turn(turn: number): Promise<void> {
    const { protocol, policy, seed } = this.#options;
    this.#when = `${protocol}, ${policy}, seed ${seed}, turn ${turn}`;
    this.#findings.count("turns");
    if (this.#once(2)) await this.#happening();
    await this.#prompt();
    for (let step = 0; step < 6; step++) if (!(await this.#step())) return;
  }

  async #prompt(): Promise<void> {
    const random = this.#random;
    if (this.#once(20)) {
      const refused = await this.#session
        .appendMessages([{ role: "user", content: " " }])
        .catch(() => "refused");
      this.#findings.expect(refused === "refused", `${this.#when}: a blank prompt was taken.`);
    }
    const pictures = this.#once(4)
      ? Array.from({ length: 1 + random.below(this.#once(8) ? 30 : 3) }, () => picture(random))
      : [];
    // A line with two of the largest images would exceed the limit for writing.
    const few = pictures.filter(({ data }, at) => at === 0 || data.length < 1_000_000);
    const text = { type: "text" as const, text: prose(random, 1 + random.below(this.#once(5) ? 1_500 : 60)) };
    await this.#session.appendMessages([{ role: "user", content: [text, ...few] }]);
  }

  /** Sends one request and appends its answer. Returns false when the turn is over. */
  async #step(): Promise<boolean> {
    const session = this.#session;
    const { provider, modelId } = this.#model;
    const answer = randomAnswer(this.#random, ++this.#answers, toolNames);
    if (this.#once(12)) {
      const content = [
        { type: "thinking" as const, thinking: "half a tho" },
        { type: "text" as const, text: "half a wo" },
      ];
      const stopReason = this.#once(2) ? ("aborted" as const) : ("error" as const);
      await session.appendMessages([{ role: "assistant", content, stopReason, provider, model: modelId }]);
      this.#findings.count("aborts");
      return false;
    }
    this.#server.next = answer;
    const turn = await this.#ask();
    return turn !== undefined && this.#results(turn);
  }

  async #ask(): Promise<Turn | undefined> {
    const session = this.#session;
    try {
      const { protocol } = this.#options;
      const provider = providerAt(protocol, this.#server.url, this.#model.modelId);
      return await session.record(provider, await session.next(provider));
    } catch (error) {
      if (!(error instanceof EspalierError)) {
        this.#findings.fault(`${this.#when}: ${(error as Error).message}`.slice(0, 600));
        this.#findings.count("refused");
      } else this.#findings.count(`too large: ${error.code}`);
      // Moves to the root: a repeated request would be refused again.
      await session.navigate(null);
      return undefined;
    }
  }

  /** Appends the results of the last answer's calls, or other messages. Returns false when the turn is over. */
  async #results(turn: Turn): Promise<boolean> {
    const { content } = turn.message;
    const asks = (content as { type: string; native?: { value: Record<string, unknown> } }[]).flatMap(
      ({ type, native }) => (type === "ai-sdk.tool-approval-request" ? [native!.value] : []),
    );
    const asked = new Set(asks.map(({ toolCallId }) => toolCallId));
    const calls = turn.calls.filter(({ id }) => !asked.has(id));
    for (const call of calls) {
      if (this.#once(15)) {
        this.#findings.count("calls without a result");
        if (this.#once(2)) await this.#crash();
        return false;
      }
      await turn.answer(call, () => this.#result());
    }
    if (asks.length > 0) {
      const content = asks.map(({ approvalId }) => ({
        type: "tool-approval-response",
        approvalId,
        approved: this.#once(2),
      }));
      this.#findings.count("approvals", asks.length);
      await this.#session.appendMessages(fromAiSdk([{ role: "tool", content }]).messages);
    }
    if (calls.length + asks.length === 0) return false;
    if (this.#once(8)) await this.#inLoop();
    return true;
  }

  #result() {
    const random = this.#random;
    const text = { type: "text" as const, text: prose(random, random.below(this.#once(6) ? 2_500 : 40)) };
    const content = this.#once(10) ? [text, picture(random)] : this.#once(12) ? [] : [text];
    return { content, isError: this.#once(10) };
  }

  /** Makes a random change while tools run, without ending the turn. */
  async #inLoop(): Promise<void> {
    const word = () => this.#session.appendMessages([{ role: "user", content: prose(this.#random, 5) }]);
    const acts = [() => this.#hide(), () => this.#compact(), () => this.#changeModel(), word];
    await this.#random.pick(acts)();
    this.#findings.count("in a loop of tools");
  }

  /** Makes a random change between turns. */
  async #happening(): Promise<void> {
    const acts = [
      () => this.#hide(),
      () => this.#compact(),
      () => this.#changeModel(),
      () => this.#fork(),
      () => this.#crash(),
      () => this.#navigate(true),
      () => this.#navigate(false),
      () => this.#foreign(),
      () => this.#hide(false),
    ];
    await this.#random.pick(acts)();
  }

  async #hide(isHidden = true): Promise<void> {
    const { sources } = this.#session.context;
    if (sources.length === 0) return;
    await this.#session.hide(this.#random.pick(sources), isHidden);
    this.#findings.count("hides");
  }

  async #compact(): Promise<void> {
    try {
      if ((await this.#session.compact()).eligible) this.#findings.count("compactions");
    } catch (error) {
      if (!(error instanceof EspalierError)) throw error;
      this.#findings.count(`not compacted: ${error.code}`);
    }
  }

  async #changeModel(): Promise<void> {
    const modelId = this.#model.modelId === "first" ? "second" : "first";
    this.#model = { ...this.#model, modelId };
    await this.#session.append(modelChange.of(this.#model));
    this.#findings.count("changes of model");
  }

  /** Appends an answer of another provider, as another program would write it. */
  async #foreign(): Promise<void> {
    const item = { type: "reasoning", id: "rs_else", summary: [], encrypted_content: "else" };
    await this.#session.appendMessages([
      { role: "user", content: "Said elsewhere." },
      {
        role: "assistant",
        provider: "elsewhere",
        model: this.#model.modelId,
        api: "openai-responses",
        content: [
          { type: "thinking", thinking: "else", thinkingSignature: JSON.stringify(item) },
          { type: "text", text: "Answered elsewhere." },
        ],
      },
    ]);
    await this.#session.append(modelChange.of(this.#model));
  }

  async #fork(): Promise<void> {
    const entry = this.#anyEntry();
    if (!entry) return;
    const { file } = await this.#session.fork(entry, { position: "at" });
    await this.#session.close();
    this.#session = await openSession({ file }, this.#opening);
    this.#findings.count("forks");
  }

  async #navigate(summarize: boolean): Promise<void> {
    const entry = this.#anyEntry();
    if (!entry) return;
    try {
      await this.#session.navigate(entry, { summarize });
      this.#findings.count(summarize ? "navigations with a summary" : "navigations");
    } catch (error) {
      // A policy compacted in the background of the previous append. Nothing was written, and a user would retry.
      if (!(error instanceof EspalierError && error.code === "stale")) throw error;
      this.#findings.count("navigations that were stale");
    }
  }

  #anyEntry(): string | undefined {
    const said = this.#session
      .getEntries()
      .filter((entry) => isMessage(entry, "user") || isMessage(entry, "assistant"));
    // Picks one of the last 30 entries; otherwise the path would not grow.
    const near = said.slice(-30);
    return near.length === 0 ? undefined : this.#random.pick(near).id;
  }

  /** Cuts the last line, as the death of a process does, and opens the session again. */
  async #crash(): Promise<void> {
    const { file } = this.#session;
    await this.#session.close();
    const bytes = readFileSync(file);
    const lastLine = bytes.length - bytes.lastIndexOf("\n", bytes.length - 2) - 1;
    if (bytes.indexOf("\n") < bytes.length - lastLine)
      truncateSync(file, bytes.length - this.#random.below(lastLine));
    this.#session = await openSession({ file }, this.#opening);
    this.#findings.count("crashes");
  }
}
