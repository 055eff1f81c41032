// Engine: the cache of one model.
#include <array>

#include <fmt/format.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>

#include "python/src/arguments.h"
#include "python/src/handles.h"
#include "python/src/model.h"

namespace emblema::python {
namespace {

using Class = nb::class_<EngineHandle>;

// Keeps what it pins from being evicted; Python's `with` ends it.
struct PinHandle {
  std::shared_ptr<OpenEngine> engine;
  std::optional<Pin> pin;
};

SealMode seal_mode_of(const std::string& name) {
  if (name.empty() || name == "inline") return SealMode::kInline;
  if (name == "deferred") return SealMode::kDeferred;
  raise_invalid(fmt::format("seal is {}; allowed: inline, deferred", name));
}

SnapshotPolicy snapshots_of(const std::string& name) {
  constexpr std::array kAll = {SnapshotPolicy::kBoundaries, SnapshotPolicy::kFull,
                               SnapshotPolicy::kPeriodic, SnapshotPolicy::kZero};
  for (const SnapshotPolicy policy : kAll) {
    if (name == to_string(policy)) return policy;
  }
  if (name.empty()) return SnapshotPolicy::kBoundaries;
  raise_invalid(fmt::format("snapshots is {}; allowed: boundaries, full, periodic, zero", name));
}

void read_quotas(nb::handle given, EngineOptions* options) {
  if (given.is_none()) return;
  if (!nb::isinstance<nb::dict>(given)) {
    raise_invalid("tenant_quotas is no dict; allowed: {tenant: bytes}");
  }
  for (const auto& [tenant, bytes] : nb::borrow<nb::dict>(given)) {
    const std::string name = text_of("a tenant of tenant_quotas", tenant);
    options->tenant_quotas[name] = bytes_of(fmt::format("tenant_quotas['{}']", name), bytes);
  }
}

// Everything but the model, the pool and what is Python's own.
EngineOptions engine_options_of(Keywords& keywords) {
  EngineOptions options;
  std::string seal;
  std::string snapshots;
  std::uint64_t snapshot_bytes = 0;
  keywords.digest("weights_id", &options.identity.weights_id)
      .count("sequence_tokens", &options.sequence_tokens)
      .count("max_sequences", &options.max_sequences)
      .count("step_tokens", &options.step_tokens)
      .count("steps_max", &options.steps_max)
      .count("draft_tokens_max", &options.draft_tokens_max)
      .text("snapshots", &snapshots)
      .count("snapshot_period_tokens", &options.snapshot_period_tokens)
      .bytes("snapshot_bytes", &snapshot_bytes)
      .flag("share_content", &options.share_content)
      .flag("share_content_across_tenants", &options.share_content_across_tenants)
      .text("seal", &seal)
      .flag("metadata_only", &options.metadata_only)
      .bytes("tenant_quota_bytes", &options.tenant_quota_bytes)
      .flag("why_across_tenants", &options.why_across_tenants);
  if (!keywords.find("snapshot_bytes").is_none()) options.snapshot_bytes = snapshot_bytes;
  read_quotas(keywords.find("tenant_quotas"), &options);
  options.seal = seal_mode_of(seal);
  options.snapshots = snapshots_of(snapshots);
  return options;
}

std::optional<Isa> isa_of(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const Isa isa = value_of(parse_isa(name));
  check(check_isa(isa));
  return isa;
}

EngineHandle open_engine(nb::handle model, nb::handle pool_bytes, Keywords keywords) {
  std::string kv_dtype;
  std::string isa;
  std::uint32_t threads = 1;
  EngineOptions options = engine_options_of(keywords);
  keywords.text("kv_dtype", &kv_dtype).text("isa", &isa).small_count("threads", &threads).finish();
  options.pool_bytes = bytes_of("pool_bytes", pool_bytes);
  const ModelGeometry geometry = geometry_of(model, kv_dtype);
  const std::optional<Isa> instructions = isa_of(isa);
  auto opened = [&]() -> Result<std::shared_ptr<OpenEngine>> {
    const nb::gil_scoped_release released;
    auto pool = ThreadPool::open(threads);
    if (!pool) return propagate(pool);
    auto engine = Engine::open(geometry, options);
    if (!engine) return propagate(engine);
    auto open = std::make_shared<OpenEngine>(std::move(*engine));
    if (threads > 1) open->threads = std::move(*pool);
    open->isa = instructions;
    return open;
  }();
  return {value_of(std::move(opened))};
}

// work(Engine&) without the GIL.
template <class Work>
auto at(const EngineHandle& self, Work&& work) {
  const nb::gil_scoped_release released;
  return work(self.open->engine);
}

SequenceHandle start(const EngineHandle& self, const TokenIds& tokens, const nb::kwargs& keywords) {
  const Request request = request_of(tokens, {"start", keywords});
  Sequence sequence =
      value_of(at(self, [&](Engine& engine) { return engine.start(request.view()); }));
  return {std::make_shared<LiveSequence>(self.open, std::move(sequence))};
}

std::variant<SegmentHandle, BuilderHandle> segment(const EngineHandle& self, const TokenIds& tokens,
                                                   const nb::kwargs& keywords) {
  const Request request = request_of(tokens, {"segment", keywords});
  SegmentLookup lookup =
      value_of(at(self, [&](Engine& engine) { return engine.segment(request.view()); }));
  if (lookup.found) {
    return SegmentHandle{self.open, std::make_shared<const Segment>(std::move(*lookup.found))};
  }
  return BuilderHandle{std::make_shared<LiveSequence>(self.open, std::move(*lookup.builder))};
}

WhyReport why(const EngineHandle& self, const TokenIds& tokens, const nb::kwargs& keywords) {
  const Request request = request_of(tokens, {"why", keywords});
  return value_of(at(self, [&](Engine& engine) { return engine.why(request.view()); }));
}

PinHandle pin(const EngineHandle& self, const TokenIds& tokens, const nb::kwargs& keywords) {
  const Request request = request_of(tokens, {"pin", keywords});
  return {self.open, at(self, [&](Engine& engine) { return engine.pin(request.view()); })};
}

void unpin(PinHandle& handle) {
  std::optional<Pin> pin = std::exchange(handle.pin, std::nullopt);
  const nb::gil_scoped_release released;
  pin.reset();
}

void bind_pin(nb::module_& module) {
  nb::class_<PinHandle>(
      module, "Pin",
      "Keeps the stored prefix of a request from being evicted until release(), the end\n"
      "of a `with` block, or until nobody has it.")
      .def_prop_ro(
          "tokens", [](const PinHandle& handle) { return handle.pin ? handle.pin->tokens() : 0; },
          "That are pinned; 0 once released.")
      .def("release", &unpin, "Ends the pin. Again: does nothing.")
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Pin"))
      .def(
          "__exit__", [](PinHandle& handle, const nb::args&) { unpin(handle); },
          nb::sig("def __exit__(self, *exc_info: object) -> None"));
}

#define EMBLEMA_REQUEST_SIGNATURE                                                       \
  "(self, tokens: collections.abc.Iterable[int], *, tenant: str = '', salt: str = '', " \
  "adapter: bytes = b'', extra: collections.abc.Iterable[tuple[int, bytes]] = ()"

void bind_requests(Class& type) {
  type.def("start", &start, nb::arg("tokens"), nb::arg("keywords"),
           nb::sig("def start" EMBLEMA_REQUEST_SIGNATURE
                   ", recompute_last_block: bool = False) -> Sequence"),
           "A sequence that already holds the longest stored prefix of the prompt: at most\n"
           "all but one token. adapter: 32 bytes, a digest of its content. extra: (offset,\n"
           "digest) of what is not a token. recompute_last_block: a hit ends one boundary\n"
           "earlier.\n\n"
           "InvalidError: ids past 32 bits, extra ids outside the prompt or out of order.\n"
           "OutOfBlocksError: no arena slot is free, or the tenant's quota has no room.")
      .def("segment", &segment, nb::arg("tokens"), nb::arg("keywords"),
           nb::sig("def segment" EMBLEMA_REQUEST_SIGNATURE ") -> Segment | SegmentBuilder"),
           "The stored segment of exactly these tokens, or a builder for it.\n\n"
           "InvalidError: no tokens, extra ids as start(). UnsupportedError: models with\n"
           "state in the arena.")
      .def("why", &why, nb::arg("tokens"), nb::arg("keywords"),
           nb::sig("def why" EMBLEMA_REQUEST_SIGNATURE ") -> WhyReport"),
           "What start() would find, block by block, and why not the rest. Changes nothing.")
      .def("pin", &pin, nb::arg("tokens"), nb::arg("keywords"),
           nb::sig("def pin" EMBLEMA_REQUEST_SIGNATURE ") -> Pin"),
           "Keeps the longest stored prefix of the request from being evicted while the Pin\n"
           "lives: `with engine.pin(tokens): ...`.");
}

#undef EMBLEMA_REQUEST_SIGNATURE

BlockCounts counts(const EngineHandle& self, const Count& given) {
  const std::uint64_t group = given.of("group");
  const std::size_t groups = self.open->engine.layout().groups.size();
  if (group >= groups) {
    raise_invalid(fmt::format("group is {}; allowed: below {}", group, groups));
  }
  return at(self, [&](Engine& engine) { return engine.counts(static_cast<std::uint32_t>(group)); });
}

void bind_seeing(Class& type) {
  type.def(
          "stats",
          [](const EngineHandle& self) {
            return at(self, [](Engine& engine) { return engine.stats(); });
          },
          "Counters since open, and blocks at this moment.")
      .def(
          "usage",
          [](const EngineHandle& self, const std::string& tenant) {
            return at(self, [&](Engine& engine) { return engine.usage(tenant); });
          },
          nb::arg("tenant") = "", "What a tenant holds and may hold.")
      .def("counts", &counts, nb::arg("group") = 0,
           nb::sig("def counts(self, group: int = 0) -> BlockCounts"),
           "One group's blocks at this moment.")
      .def_prop_ro(
          "geometry", [](const EngineHandle& self) { return self.open->engine.geometry(); },
          nb::rv_policy::move, "What the model remembers.")
      .def_prop_ro(
          "plan", [](const EngineHandle& self) { return self.open->engine.plan(); },
          nb::rv_policy::move, "How the pool was divided.")
      .def_prop_ro(
          "threads",
          [](const EngineHandle& self) {
            return self.open->threads ? self.open->threads->threads() : 1U;
          },
          "That attention uses, the caller's own included.")
      .def(
          "check_invariants",
          [](const EngineHandle& self) {
            check(at(self, [](Engine& engine) { return engine.check_invariants(); }));
          },
          "Recounts everything; slow. CorruptError: names the first thing that disagrees.");
}

void bind_memory(Class& type) {
  type.def(
          "seal_pending",
          [](const EngineHandle& self, const Count& given) {
            const std::uint64_t budget = given.of("budget_blocks");
            return at(self, [&](Engine& engine) { return engine.seal_pending(budget); });
          },
          nb::arg("budget_blocks"),
          "With seal='deferred': shares the content of up to so many blocks; gives how many\n"
          "were handled.")
      .def(
          "evict_idle",
          [](const EngineHandle& self) {
            return at(self, [](Engine& engine) { return engine.evict_idle(); });
          },
          "Drops everything that no sequence, segment or pin holds; gives the blocks freed.");
}

}  // namespace

void bind_engine(nb::module_& module) {
  bind_pin(module);
  Class type(module, "Engine",
             "The cache of one model on one rank. Any thread may call any member; work is done\n"
             "without the GIL. Sequences, segments, pins and lent arrays keep alive what they\n"
             "need: the Engine object may go first.");
  type.def("__repr__", [](const EngineHandle& self) {
    const Engine& engine = self.open->engine;
    return fmt::format("Engine({}, {}, {} tokens)", engine.geometry().model().name,
                       engine.geometry().attention_in_words(), engine.plan().tokens);
  });
  type.def(
      "__init__",
      [](EngineHandle* self, nb::handle model, nb::handle pool_bytes, const nb::kwargs& keywords) {
        new (self) EngineHandle(open_engine(model, pool_bytes, {"Engine", keywords}));
      },
      nb::arg("model"), nb::arg("pool_bytes"), nb::arg("keywords"),
      nb::sig("def __init__(self, model: str | os.PathLike[str] | dict[str, typing.Any] | "
              "ModelConfig | Geometry, pool_bytes: int | str, *, kv_dtype: str | None = None, "
              "threads: int = 1, isa: str | None = None, step_tokens: int = 2048, "
              "sequence_tokens: int = 0, max_sequences: int = 16, steps_max: int = 1, "
              "draft_tokens_max: int = 0, weights_id: bytes = b'', share_content: bool = True, "
              "share_content_across_tenants: bool = False, seal: str = 'inline', "
              "snapshots: str = 'boundaries', snapshot_period_tokens: int = 0, "
              "snapshot_bytes: int | str | None = None, tenant_quota_bytes: int | str = 0, "
              "tenant_quotas: dict[str, int | str] | None = None, "
              "why_across_tenants: bool = True, metadata_only: bool = False) -> None"),
      "pool_bytes: memory that attention reads, a number or \"4GiB\". kv_dtype None:\n"
      "bf16, or as the Geometry says. threads: that one attention call may use, the\n"
      "caller's included. isa: \"scalar\", \"avx2\", \"avx512\", \"amx\"; None: the\n"
      "widest of this machine. step_tokens: largest reserve(). weights_id: 32 bytes, a\n"
      "digest of the weights. The others are those of the C++ EngineOptions.\n\n"
      "InvalidError: names the option, its value and what is allowed. OutOfBlocksError:\n"
      "the pool is too small, with the bytes needed. IoError: memory was refused.\n"
      "UnsupportedError: a model that can be planned, but not run.");
  bind_requests(type);
  bind_memory(type);
  bind_seeing(type);
}

}  // namespace emblema::python
