#pragma once
// A pipe that may stand still for a while: what has come is handed on all the same.

#include "core/base/clock.hh"
#include "core/trace/chunk.hh"
#include "core/trace/chunk_reader.hh"
#include "core/trace/reader.hh"

#include <memory>
#include <string>

namespace reprise::trace {

/// Reads in a thread of its own, because a source says only by waiting that it has no more for now.
/// A chunk is handed on when it is full, or when its first message is kPatience old. Whoever is
/// destroyed before the end leaves a thread behind that ends with its pipe's next message.
class LiveReader final : public ChunkSource {
public:
    static constexpr Nanoseconds kPatience = 20 * kMillisecond;

    LiveReader(const std::string& path, const ReaderOptions& options);
    ~LiveReader() override;
    LiveReader(const LiveReader&) = delete;
    LiveReader& operator=(const LiveReader&) = delete;

    /// Empty where nothing has come for a tenth of a second.
    std::shared_ptr<Chunk> read() override;

private:
    struct State;

    std::shared_ptr<State> state_;
};

} // namespace reprise::trace
