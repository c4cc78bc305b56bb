/** The JSON Schema of a settings file, for editors; keys are also accepted in snake_case, and below `behavior`. */
export async function settingsJsonSchema(): Promise<object> {
  const schema = await import("./settings-schema.ts");
  return schema.settingsJsonSchema();
}
