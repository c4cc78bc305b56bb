import {
  type AssistantMessage,
  type ContentBlock,
  type ContextMessage,
  fieldText,
  isRecord,
  type RequestFormat,
  type SessionContext,
} from "@espalier/session-tree";
import type { RequestSource } from "./conversation.ts";
import {
  type FormatName,
  isNativeBlock,
  type Native,
  nativeFor,
  plainJson,
  refusesIn,
  remoteImageUrl,
} from "./native.ts";

/** A format that gives its provider back what only that one can say; `unload` puts it into a rendered request. */
export function carryingFormat<Request>(
  base: RequestFormat<Request>,
  rules: CargoRules,
  unload: (request: Request, cargo: Cargo) => Request,
): RequestFormat<Request> {
  return {
    ...base,
    carry(context, model) {
      const cargo = new Cargo({ context, model }, rules);
      return { context: cargo.context, restore: (request) => unload(request, cargo) };
    },
  };
}

/** How markers begin; base64 throughout, so that a picture can carry one. */
const MARK = "espalierCargo/";
const MARKERS = /espalierCargo\/(\d+)\//g;
const MARKER = /^espalierCargo\/(\d+)\/$/;

/** Pictures that need no healing. */
const SOUND_DATA = /^[A-Za-z0-9+/]+={0,2}$/;
const SOUND_TYPE = /^image\/(png|jpeg|gif|webp)$/;

/** What of a format decides how its blocks are carried. */
export interface CargoRules {
  format: FormatName;
  /**
   * True where each text of a user or of a result is written by itself, so that a marker in its place is found again;
   * false where texts are joined.
   */
  keepsTextsApart: boolean;
  /** Types of blocks in an answer that go back whichever provider answered: the client's, not a provider's. */
  ofClient?: ReadonlySet<string>;
}

/**
 * Takes what only one format can say through the healing of a request, which knows the common blocks alone. Before it,
 * each such block is replaced by a common one that holds a marker: a text in an answer, a picture elsewhere, since
 * healing keeps both in their place. After it, the format's writer finds the markers and puts the blocks back. So every
 * rule that healing keeps holds for what is carried, too.
 *
 * Left to healing: blocks of another format, those in an answer of another provider, those that name another provider.
 */
export class Cargo {
  /** The context with markers. */
  readonly context: SessionContext;
  readonly #rules: CargoRules;
  readonly #provider: string | undefined;
  readonly #blocks: ContentBlock[] = [];
  readonly #calls = new Map<string, Native | undefined>();
  readonly #results = new Map<string, Native | undefined>();

  constructor({ context, model }: Pick<RequestSource, "context" | "model">, rules: CargoRules) {
    this.#rules = rules;
    this.#provider = model?.provider;
    this.context = { ...context, messages: context.messages.map((message) => this.#load(message)) };
  }

  /** The block that a marker stands for; undefined for any other text. */
  at(text: unknown): ContentBlock | undefined {
    const number = typeof text === "string" ? MARKER.exec(text)?.[1] : undefined;
    const block = number === undefined ? undefined : this.#blocks[Number(number)];
    return block && wellFormed(block);
  }

  /** A text with what its markers say in their place, for formats that join texts. */
  expand(text: string): string {
    return text.replace(MARKERS, (marker) => {
      const block = this.at(marker);
      return block?.type === "text" ? block.text : marker;
    });
  }

  /** What only this format says of the call with this id. */
  call(id: string): Native["value"] | undefined {
    return wellFormed(this.#calls.get(id)?.value);
  }

  /** What only this format says of the result of the call with this id. */
  result(id: string): Native["value"] | undefined {
    return wellFormed(this.#results.get(id)?.value);
  }

  #load(message: ContextMessage): ContextMessage {
    if (!isRecord(message) || !("content" in message) || !Array.isArray(message.content)) return message;
    const { role } = message;
    if (role === "toolResult") register(this.#results, message.toolCallId, this.#nativeOf(message));
    const load =
      role === "assistant"
        ? (block: ContentBlock) => this.#answerBlock(block, message)
        : role === "user" || role === "custom" || role === "toolResult"
          ? (block: ContentBlock) => this.#userBlock(block)
          : undefined;
    if (!load) return message;
    const content = (message.content as unknown[]).map((block) =>
      isRecord(block) && typeof block["type"] === "string" ? load(block as unknown as ContentBlock) : block,
    );
    const loaded = { ...message, content } as ContextMessage;
    // An answer that refused failed; the provider that says so in a block takes it back.
    const isTakenBack =
      loaded.role === "assistant" &&
      loaded.provider === this.#provider &&
      loaded.stopReason === "error" &&
      refusesIn(message.content, this.#rules.format);
    return isTakenBack ? { ...loaded, stopReason: "stop" } : loaded;
  }

  #userBlock(block: ContentBlock): ContentBlock {
    if (block.type === "text") {
      return this.#rules.keepsTextsApart && this.#needsCarrying(block) ? this.#asText(block) : block;
    }
    if (block.type === "image") {
      const data = fieldText(block.data);
      const isSound =
        data.length % 4 === 0 && SOUND_DATA.test(data) && SOUND_TYPE.test(fieldText(block.mimeType));
      const carried = isSound && (this.#nativeOf(block) !== undefined || data.startsWith(MARK));
      return carried ? this.#asPicture(block) : block;
    }
    const isCarried = remoteImageUrl(block) !== undefined || this.#nativeOf(block) !== undefined;
    return isCarried ? this.#asPicture(block) : block;
  }

  #answerBlock(block: ContentBlock, answer: AssistantMessage): ContentBlock {
    const isOwn = answer.provider === this.#provider;
    if (block.type === "toolCall") register(this.#calls, block.id, isOwn ? this.#nativeOf(block) : undefined);
    else if (block.type === "text") {
      const carried = isOwn ? this.#needsCarrying(block) : holdsMark(block.text);
      if (carried) return this.#asText(isOwn ? block : { type: "text", text: block.text });
    } else if (
      (isOwn || this.#rules.ofClient?.has(block.type)) &&
      isNativeBlock(block, this.#rules.format) &&
      this.#nativeOf(block)
    ) {
      return this.#asText(block);
    }
    return block;
  }

  /** True for a text with more to it than text, and for one that looks like a marker. */
  #needsCarrying(block: ContentBlock & { type: "text" }): boolean {
    if (typeof block.text !== "string" || block.text.trim() === "") return false;
    return this.#nativeOf(block) !== undefined || holdsMark(block.text);
  }

  #nativeOf(holder: object): Native | undefined {
    const native = nativeFor(holder, this.#rules.format);
    return native?.provider === undefined || native.provider === this.#provider ? native : undefined;
  }

  #asText(block: ContentBlock): ContentBlock {
    return { type: "text", text: this.#marked(block) };
  }

  #asPicture(block: ContentBlock): ContentBlock {
    return { type: "image", mimeType: "image/png", data: this.#marked(block) };
  }

  #marked(block: ContentBlock): string {
    const number = String(this.#blocks.push(block) - 1);
    // Base64 without padding has a multiple of four characters.
    return `${MARK}${number.padStart(number.length > 5 ? 9 : 5, "0")}/`;
  }
}

/** A copy in well-formed Unicode: what was read from a file may hold halves of characters. */
const wellFormed = <Value>(value: Value): Value => plainJson(value, () => undefined) as Value;
const holdsMark = (text: unknown): boolean => typeof text === "string" && text.includes(MARK);

/** Remembers by the id that a request will have; of two that become equal, neither is known. */
function register(map: Map<string, Native | undefined>, id: unknown, native: Native | undefined): void {
  const key = fieldText(id).replace(/[^a-zA-Z0-9_-]/g, "_");
  map.set(key, map.has(key) ? undefined : native);
}
