// Rows: what Sequence.rows() lends, and rows read back.
#include "python/src/rows.h"

#include <array>

#include <fmt/format.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "emblema/kernels/append.h"
#include "emblema/layout/paged_rows.h"
#include "python/src/arguments.h"
#include "python/src/arrays.h"
#include "python/src/row_parts.h"

namespace emblema::python {
namespace {

// How numpy sees one row: numbers of its own where it has such, else the row's bytes.
struct RowType {
  nb::dlpack::dtype number = nb::dtype<std::uint8_t>();  // as DLPack says it
  nb::dlpack::dtype numpy = nb::dtype<std::uint8_t>();   // bfloat16 as the bits of uint16
  std::uint64_t width = 0;
};

struct Rows {
  std::shared_ptr<LiveSequence> live;
  std::uint64_t generation = 0;
  const LayerGeometry* layer = nullptr;  // the one whose streams they are
  StreamRole role = StreamRole::kKv;
  std::uint64_t rows = 0;
  RowType type;
  std::vector<RowChunk> chunks;
};

RowType type_of(const Stream& stream) {
  RowType type{.width = stream.entry_bytes};
  const Encoding encoding = stream.regions.front().encoding;
  for (const EntryRegion& region : stream.regions) {
    if (region.encoding != encoding) return type;
  }
  constexpr auto kFloat = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float);
  constexpr auto kBfloat = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat);
  switch (encoding) {
    case Encoding::kFp32:
      type.number = type.numpy = {kFloat, 32, 1};
      break;
    case Encoding::kFp16:
      type.number = type.numpy = {kFloat, 16, 1};
      break;
    case Encoding::kBf16:
      type.number = {kBfloat, 16, 1};
      type.numpy = nb::dtype<std::uint16_t>();
      break;
    default:
      return type;
  }
  type.width = stream.entry_bytes / (type.number.bits / 8U);
  return type;
}

const LayerGeometry& layer_of(const LiveSequence& live, const Count& given) {
  return *value_of(live.engine().layer(given.of("layer")));
}

const Stream& stream_of(const LayerGeometry& layer, const std::optional<std::string>& role) {
  std::string names;
  for (const Stream& stream : layer.streams) {
    if (!role || *role == to_string(stream.role)) return stream;
    names += (names.empty() ? "" : ", ") + std::string(to_string(stream.role));
  }
  if (!role) {
    raise_invalid(fmt::format("layer {} ({}) has no rows", layer.index, layer.kind));
  }
  raise_invalid(fmt::format("role of layer {} is {}; allowed: {}", layer.index, *role,
                            names.empty() ? "none" : names));
}

nb::capsule owner_of(const std::shared_ptr<LiveSequence>& live) {
  return nb::capsule(new std::shared_ptr<LiveSequence>(live), [](void* owned) noexcept {
    delete static_cast<std::shared_ptr<LiveSequence>*>(owned);
  });
}

void check_alive(const Rows& rows) {
  if (rows.generation == rows.live->generation()) return;
  raise_invalid("these rows ended when their sequence changed; allowed: those of a new rows()");
}

const RowChunk& chunk_at(const Rows& rows, std::int64_t index) {
  check_alive(rows);
  const auto chunks = static_cast<std::int64_t>(rows.chunks.size());
  if (index < -chunks || index >= chunks) {
    throw nb::index_error(
        fmt::format("chunk {} of rows in {} chunks", index, rows.chunks.size()).c_str());
  }
  return rows.chunks[static_cast<std::size_t>(index < 0 ? index + chunks : index)];
}

template <class Framework>
nb::object array_at(const Rows& rows, std::int64_t index, nb::dlpack::dtype type) {
  const RowChunk& chunk = chunk_at(rows, index);
  const std::array<std::size_t, 2> shape = {chunk.rows, rows.type.width};
  const std::array<std::int64_t, 2> strides = {
      static_cast<std::int64_t>(chunk.row_bytes / (type.bits / 8U)), 1};
  const nb::ndarray<Framework> array(chunk.data, shape.size(), shape.data(), owner_of(rows.live),
                                     strides.data(), type);
  return nb::cast(array);
}

nb::object view_at(const Rows& rows, std::int64_t index) {
  nb::object array = array_at<nb::numpy>(rows, index, rows.type.numpy);
  rows.live->lend(array);
  if (rows.generation != rows.live->generation()) {  // by another thread, meanwhile
    array.attr("setflags")(false);
    check_alive(rows);
  }
  return array;
}

Rows lend_rows(const SequenceHandle& self, const Count& layer_index,
               const std::optional<std::string>& role, const std::optional<Count>& first,
               const std::optional<Count>& count) {
  Rows rows;
  rows.live = self.live;
  rows.layer = &layer_of(*self.live, layer_index);
  const Stream& stream = stream_of(*rows.layer, role);
  rows.role = stream.role;
  rows.type = type_of(stream);
  const std::uint64_t given_first = first ? first->of("first") : 0;
  const std::uint64_t given_count = count ? count->of("count") : 0;
  self.live->run([&](Sequence& sequence) -> Status {
    const std::uint64_t position = first ? given_first : self.live->write_position();
    const std::uint64_t end = self.live->write_position() + sequence.reserved_tokens();
    const std::uint64_t rest = position < end ? end - position : 0;
    const auto view =
        sequence.rows(rows.layer->index, rows.role, position, count ? given_count : rest);
    if (!view) return propagate(view);
    for (std::uint64_t i = 0; i < view->size(); ++i) {
      rows.chunks.push_back((*view)[i]);
      rows.rows += rows.chunks.back().rows;
    }
    rows.generation = self.live->generation();
    return {};
  });
  return rows;
}

// ---- write() -----------------------------------------------------------------------------------

struct Scales {
  float key = 1.0F;
  float value = 1.0F;
};

AttentionShape shape_of(const Rows& rows) {
  const LayerGeometry& layer = *rows.layer;
  const bool latent = rows.role == StreamRole::kLatent;
  return {.kind = latent ? RowKind::kLatent : RowKind::kGrouped,
          .query_heads = layer.query_heads,
          .kv_heads = layer.kv_heads,
          .key_dim = layer.key_dim,
          .value_dim = layer.value_dim,
          .rotary_offset = latent ? layer.value_dim : 0};
}

std::uint64_t numbers_of(const AttentionShape& shape) {
  if (shape.kind == RowKind::kLatent) return shape.key_dim;
  return std::uint64_t{shape.kv_heads} * (shape.key_dim + shape.value_dim);
}

// How their page stores rows.
PagedRows layout_of(const Rows& rows) {
  const bool is_encoded = rows.role == StreamRole::kKv || rows.role == StreamRole::kLatent;
  for (const BlockLayout& group : rows.live->engine().engine.layout().groups) {
    const StreamPage* page = group.find(rows.layer->index, rows.role);
    if (page == nullptr || !is_encoded) continue;
    if (const auto layout = paged_rows_of(*page)) return *layout;
  }
  raise(Error{ErrorCode::Unsupported,
              fmt::format("write of {} rows stored as {}; it encodes kv and latent rows in bf16, "
                          "fp16, fp32, fp8 and fp8_ds_mla: write the bytes of rows[i] instead",
                          to_string(rows.role),
                          to_string(rows.live->engine().engine.geometry().options().kv_dtype))});
}

Status append(const Rows& rows, const AttentionShape& shape, const PagedRows& layout,
              std::span<const float> numbers) {
  const std::uint64_t width = numbers_of(shape);
  const RowOptions options{.isa = rows.live->engine().isa, .scale_rule = {}};
  std::uint64_t done = 0;
  for (const RowChunk& chunk : rows.chunks) {
    PagedRows stored = layout;
    stored.row_bytes = chunk.row_bytes;
    AppendInputs inputs;
    inputs.shape = shape;
    inputs.numbers = numbers.subspan(done * width, chunk.rows * width);
    if (Status ok = append_rows(inputs, contiguous_rows(chunk.data, chunk.rows, stored), options);
        !ok) {
      return ok;
    }
    done += chunk.rows;
  }
  return {};
}

void write(const Rows& rows, const nb::args& given, const Scales& scales) {
  check_alive(rows);
  const AttentionShape shape = shape_of(rows);
  PagedRows layout = layout_of(rows);
  layout.key_scale = scales.key;
  layout.value_scale = scales.value;
  const RowParts parts(given, rows.rows, numbers_of(shape));
  rows.live->run([&](Sequence&) -> Status {
    if (rows.generation != rows.live->generation()) {
      return fail(ErrorCode::Invalid,
                  "these rows ended when their sequence changed; allowed: those of a new rows()");
    }
    std::vector<float> joined;
    return append(rows, shape, layout, parts.numbers(&joined));
  });
}

// ---- row() -------------------------------------------------------------------------------------

nb::object read_row(const SequenceHandle& self, const Count& layer_index, const Count& given,
                    const std::optional<std::string>& role) {
  const LayerGeometry& layer = layer_of(*self.live, layer_index);
  const Stream& stream = stream_of(layer, role);
  const std::uint64_t position = given.of("position");
  auto bytes = std::make_unique<std::vector<std::byte>>();
  self.live->run([&](Sequence& sequence) -> Status {
    if (position >= sequence.tokens()) {
      return fail(ErrorCode::Invalid, fmt::format("row at position {}; allowed: below the {} "
                                                  "tokens committed",
                                                  position, sequence.tokens()));
    }
    const auto any = sequence.rows(layer.index, stream.role, self.live->write_position(), 0);
    if (!any && any.error().code == ErrorCode::Unsupported) return propagate(any);
    const ConstByteSpan row = sequence.row_bytes(layer.index, stream.role, position);
    if (row.empty()) {
      return fail(
          ErrorCode::NotFound,
          fmt::format("row at position {} lies behind its window and was released", position));
    }
    bytes->assign(row.begin(), row.end());
    return {};
  });
  const RowType type = type_of(stream);
  const std::array<std::size_t, 1> shape = {type.width};
  const std::byte* data = bytes->data();
  const nb::capsule owner(bytes.release(), [](void* owned) noexcept {
    delete static_cast<std::vector<std::byte>*>(owned);
  });
  return nb::cast(
      nb::ndarray<nb::numpy, nb::ro>(data, 1, shape.data(), owner, nullptr, type.numpy));
}

void bind_rows_class(nb::module_& module) {
  nb::class_<Rows>(
      module, "Rows",
      "Where to write the reserved rows of one layer: chunks of consecutive rows in the\n"
      "blocks themselves. len() is their number.\n\n"
      "They end when the sequence changes (reserve, commit, cancel, truncate, fork,\n"
      "attach, release): everything here is InvalidError then, and arrays that rows[i]\n"
      "gave are read-only, so that writing raises ValueError. What was made of such an\n"
      "array before (a slice, a tensor), and DLPack tensors, cannot be taken back: let go\n"
      "of them before the sequence changes. An array keeps its memory and, until\n"
      "release(), its blocks; in blocks that were given back it shows whatever comes\n"
      "there next.")
      .def("__len__", [](const Rows& rows) { return rows.chunks.size(); })
      .def("__getitem__", &view_at, nb::arg("index"),
           nb::sig("def __getitem__(self, index: int) -> numpy.typing.NDArray[typing.Any]"),
           "A writable array (rows, numbers) over chunk `index`, without a copy: float32,\n"
           "float16, of bf16 rows the bits as uint16, of any other type the bytes as uint8.\n"
           "Keeps the memory alive.")
      .def(
          "tensor",
          [](const Rows& rows, std::int64_t index) {
            return array_at<nb::array_api>(rows, index, rows.type.number);
          },
          nb::arg("index") = 0, nb::sig("def tensor(self, index: int = 0) -> typing.Any"),
          "The same as an object that speaks DLPack, bf16 as such: torch.from_dlpack(...)\n"
          "makes a tensor of it without a copy.")
      .def(
          "first_token",
          [](const Rows& rows, std::int64_t index) { return chunk_at(rows, index).first_token; },
          nb::arg("index") = 0, "Position of a chunk's first row.")
      .def(
          "write",
          [](const Rows& rows, const nb::args& parts, float key_scale, float value_scale) {
            write(rows, parts, {key_scale, value_scale});
          },
          nb::arg("parts"), nb::arg("key_scale") = 1.0F, nb::arg("value_scale") = 1.0F,
          nb::sig("def write(self, *parts: typing.Any, key_scale: float = 1.0, "
                  "value_scale: float = 1.0) -> None"),
          "Encodes all rows as they are stored, keys rotated already. Each part is an array\n"
          "(rows, ...) of float32, float16 or bfloat16, of any strides; a row is its parts\n"
          "one after the other: keys (rows, kv_heads, key_dim) and values (rows, kv_heads,\n"
          "value_dim), or latents (rows, value_dim) and rotary keys (rows, key_dim -\n"
          "value_dim). Scales are those of fp8 rows: stored number x scale = number.\n\n"
          "InvalidError: shapes that do not give these rows. UnsupportedError: a stored\n"
          "type that is not encoded here.")
      .def_prop_ro(
          "rows", [](const Rows& rows) { return rows.rows; }, "Of all chunks.")
      .def_prop_ro(
          "role", [](const Rows& rows) { return std::string(to_string(rows.role)); },
          "Of the stream.");
}

}  // namespace

void bind_rows(nb::module_& module) {
  bind_rows_class(module);
}

void bind_row_calls(nb::class_<SequenceHandle>& type) {
  type.def("rows", &lend_rows, nb::arg("layer"), nb::arg("role") = nb::none(),
           nb::arg("first") = nb::none(), nb::arg("count") = nb::none(),
           "Where to write the rows of `count` reserved tokens from position `first` on; by\n"
           "default of all reserved tokens, and of the layer's first stream (\"kv\" or\n"
           "\"latent\"). A layer that shares another's rows gives that layer's.\n\n"
           "InvalidError: positions that are not reserved, or no such layer or stream.")
      .def("row", &read_row, nb::arg("layer"), nb::arg("position"), nb::arg("role") = nb::none(),
           nb::sig("def row(self, layer: int, position: int, role: str | None = None) -> "
                   "numpy.typing.NDArray[typing.Any]"),
           "A copy of one committed row, typed as rows() gives them.\n\n"
           "NotFoundError: behind a window. InvalidError: not committed, or no such layer or\n"
           "stream.");
}

}  // namespace emblema::python
