// The rough estimate the engine uses: characters / 4, rounded up per message; a picture counts as 1,200 tokens.

const PICTURE_CHARS = 4_800;

/** Tokens of one neutral message. */
export function estimateTokens(message) {
  return Math.ceil(messageChars(message) / 4);
}

/** Tokens of several. */
export function estimateTotal(messages) {
  return messages.reduce((total, message) => total + estimateTokens(message), 0);
}

function messageChars(message) {
  if (message.role === "bashExecution") {
    return message.excludeFromContext ? 0 : message.command.length + message.output.length;
  }
  if (message.role === "compactionSummary" || message.role === "branchSummary") return message.summary.length;
  if (typeof message.content === "string") return message.content.length;
  return message.content.reduce((chars, block) => chars + blockChars(block), 0);
}

function blockChars(block) {
  if (block.type === "text") return block.text.length;
  if (block.type === "thinking") return block.thinking.length;
  if (block.type === "image") return PICTURE_CHARS;
  return block.name.length + JSON.stringify(block.arguments).length;
}
