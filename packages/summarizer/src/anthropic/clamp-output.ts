/**
 * The `max_tokens` of a request: what is wanted, no more than the model gives, no more than the window leaves beside
 * the prompt; 0 when it leaves nothing. Whole tokens.
 */
export function clampOutput(requested: number, modelMaxOutput: number, windowLeft: number): number {
  return Math.max(0, Math.floor(Math.min(requested, modelMaxOutput, windowLeft)));
}
