/** Names under which tools take the path of one file. */
export const PATH_FIELDS = [
  "path",
  "file_path",
  "filePath",
  "filepath",
  "file",
  "filename",
  "file_name",
  "target_file",
  "targetFile",
  "absolute_path",
  "notebook_path",
  "relative_path",
  "uri",
] as const;
