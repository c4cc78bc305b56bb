/** A block of an answer. */
export type ReplyBlock =
  | { type: "text"; text: string }
  | { type: "thinking"; thinking: string; signature: string }
  | { type: "redacted_thinking"; data: string }
  | { type: "tool_use"; id?: string; name: string; input: Record<string, unknown> };

/** What happens instead of the rest of a streamed answer, after that many deltas. */
export interface ReplyBreak {
  /** Pieces of the text that come before it. */
  afterDeltas: number;
  /**
   * `cut`: the connection is torn. `overloaded`: an error event. `end`: the stream ends without its last events.
   * `hang`: nothing more comes until somebody gives up.
   */
  how: "cut" | "overloaded" | "end" | "hang";
}

/** An answer of the model. */
export interface MessageReply {
  kind: "message";
  content: readonly ReplyBlock[];
  /** `tool_use` where a block is one, else `end_turn`. */
  stopReason?: string;
  /** Counted from the request and the answer where absent. */
  usage?: Readonly<Record<string, number>>;
  /** Milliseconds before the first byte. */
  delayMs?: number;
  /** Milliseconds before each delta of a streamed answer. */
  deltaDelayMs?: number;
  /** Characters of a delta: 20. */
  deltaLength?: number;
  breaks?: ReplyBreak;
}

/** An error with an HTTP status. */
export interface ErrorReply {
  kind: "error";
  status: number;
  type: string;
  message: string;
  headers?: Readonly<Record<string, string>>;
  delayMs?: number;
}

/** What the server does with one request. `hang`: it takes the request and never answers. */
export type Reply = MessageReply | ErrorReply | { kind: "hang" };

/** What may be said of an answer beside its content. */
export type MessageOptions = Omit<Partial<MessageReply>, "kind" | "content">;

/** An answer of one text. */
export const textReply = (text: string, options: MessageOptions = {}): MessageReply => ({
  kind: "message",
  content: [{ type: "text", text }],
  ...options,
});

/** An answer that calls tools, after a text if there is one. */
export const toolReply = (
  calls: readonly { id?: string; name: string; input: Record<string, unknown> }[],
  options: MessageOptions & { text?: string } = {},
): MessageReply => {
  const { text, ...rest } = options;
  const spoken: ReplyBlock[] = text === undefined ? [] : [{ type: "text", text }];
  return {
    kind: "message",
    content: [...spoken, ...calls.map((call) => ({ type: "tool_use" as const, ...call }))],
    ...rest,
  };
};

/** An error by status; the type is the one the API gives it. */
export const errorReply = (status: number, message = "Something is wrong", headers = {}): ErrorReply => ({
  kind: "error",
  status,
  type: ERROR_TYPES[status] ?? "api_error",
  message,
  headers,
});

/** 429; `seconds` is the value of `retry-after`. */
export const rateLimitedReply = (seconds?: number): ErrorReply =>
  errorReply(
    429,
    "Number of requests has exceeded your rate limit",
    seconds === undefined ? {} : { "retry-after": `${seconds}` },
  );

/** 529. */
export const overloadedReply = (): ErrorReply => errorReply(529, "Overloaded");

/** 400, in the words in which the API says it. */
export const tooLongReply = (tokens = 200_001, most = 200_000): ErrorReply =>
  errorReply(400, `prompt is too long: ${tokens} tokens > ${most} maximum`);

/** A streamed text that breaks off. */
export const brokenReply = (text: string, how: ReplyBreak["how"], afterDeltas = 1): MessageReply =>
  textReply(text, { breaks: { afterDeltas, how } });

/** No answer at all. */
export const hangingReply = (): Reply => ({ kind: "hang" });

const ERROR_TYPES: Record<number, string> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  504: "timeout_error",
  529: "overloaded_error",
};
