// Small ONNX files for tests, by hand.
const varint = (value) => {
  const bytes = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push((value % 128) | 128);
  return [...bytes, value];
};
const number = (field, value) => [...varint(field * 8), ...varint(value)];
const message = (field, body) => [...varint(field * 8 + 2), ...varint(body.length), ...body];
const text = (field, of) => message(field, [...new TextEncoder().encode(of)]);

/** A model `relu(image)` of `batch` images of 3 x `side` x `side`. */
export function dynamic() {
  const dims = [text(2, 'batch'), number(1, 3), text(2, 'side'), text(2, 'side')];
  const shape = dims.flatMap((dim) => message(1, dim));
  const type = message(1, [...number(1, 1), ...message(2, shape)]);
  const node = [...text(1, 'image'), ...text(2, 'out'), ...text(3, 'relu'), ...text(4, 'Relu')];
  const graph = [...message(1, node), ...text(2, 'dynamic'), ...message(11, [...text(1, 'image'), ...message(2, type)]), ...message(12, text(1, 'out'))];
  return Buffer.from([...number(1, 8), ...message(8, number(2, 17)), ...message(7, graph)]);
}

/** The head of a field that readers skip, for so many bytes behind a model. */
export const padded = (bytes) => [...varint(1000 * 8 + 2), ...varint(bytes)];
