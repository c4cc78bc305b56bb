/** What JSON can say; an undefined field is not written. */
export type JsonValue =
  | null
  | string
  | number
  | boolean
  | JsonValue[]
  | { [key: string]: JsonValue | undefined };

/** Options by the name of the provider that reads them. */
export type AiSdkOptions = Record<string, Record<string, JsonValue>>;

/** Text that somebody said. */
export interface AiSdkText {
  type: "text";
  text: string;
  providerOptions?: AiSdkOptions;
}

/** A picture that a user sent. */
export interface AiSdkImage {
  type: "image";
  /** Base64, or an address. */
  image: string;
  /** As `image/png`; the SDK looks at the bytes where it is absent. */
  mediaType?: string;
  providerOptions?: AiSdkOptions;
}

/** A model's thinking; its signature is in `providerOptions`. */
export interface AiSdkReasoning {
  type: "reasoning";
  text: string;
  providerOptions?: AiSdkOptions;
}

/** A call to a tool; its result is in the `tool` message behind the answer. */
export interface AiSdkCall {
  type: "tool-call";
  toolCallId: string;
  toolName: string;
  /** The arguments, parsed. */
  input: unknown;
  providerOptions?: AiSdkOptions;
}

/** How a picture in a result is marked: `image-data` since version 6, `media` in version 5. */
export type AiSdkMediaType = "image-data" | "media";

/** What a tool gave back. */
export interface AiSdkResult<Type extends AiSdkMediaType = "image-data"> {
  type: "tool-result";
  toolCallId: string;
  toolName: string;
  output: AiSdkOutput<Type>;
  providerOptions?: AiSdkOptions;
}

/** A result as text, one that failed as `error-text`, one with pictures as a list. */
export type AiSdkOutput<Type extends AiSdkMediaType = "image-data"> =
  | { type: "text" | "error-text"; value: string }
  | { type: "content"; value: (AiSdkText | AiSdkMedia<Type>)[] };

/** A picture in a result, base64. */
export interface AiSdkMedia<Type extends AiSdkMediaType = "image-data"> {
  type: Type;
  data: string;
  mediaType: string;
}

/** A `ModelMessage` of the AI SDK (5 and later), as far as requests are made of it. */
export type AiSdkMessage<Type extends AiSdkMediaType = "image-data"> =
  | { role: "user"; content: (AiSdkText | AiSdkImage)[] }
  | { role: "assistant"; content: (AiSdkText | AiSdkReasoning | AiSdkCall)[] }
  | { role: "tool"; content: AiSdkResult<Type>[] };

/** A tool without code; give `inputSchema` to the SDK's `jsonSchema()`. */
export interface AiSdkTool {
  name: string;
  description?: string;
  /** A JSON Schema. */
  inputSchema: Record<string, unknown>;
}

/** What `generateText` and `streamText` take of a conversation. */
export interface AiSdkRequest<Type extends AiSdkMediaType = "image-data"> {
  system?: string;
  messages: AiSdkMessage<Type>[];
  tools?: AiSdkTool[];
}
