#pragma once
// Files of a test's own, and all messages of a trace at once.

#include "core/trace/testing/packets.hh"
#include "core/trace/testing/reader.hh"
#include "core/wire/query.hh"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace reprise::trace::test {

/// A file with these bytes, gone with the object.
class ScratchFile {
public:
    explicit ScratchFile(const Buffer& bytes)
        : path_(std::filesystem::temp_directory_path() /
                ("reprise-foreign-" + std::to_string(getpid()) + "-" + std::to_string(made++))) {
        std::ofstream(path_, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
    }

    ~ScratchFile() { std::filesystem::remove(path_); }

    ScratchFile(const ScratchFile&) = delete;
    ScratchFile& operator=(const ScratchFile&) = delete;

    [[nodiscard]] std::string path() const { return path_; }

private:
    static inline unsigned made = 0;

    std::filesystem::path path_;
};

struct ReadMessage {
    Nanoseconds time = 0;
    std::string source;
    std::string destination;
    Transport transport = Transport::kUdp;
    bool response = false;
    Buffer bytes;
};

struct ReadTrace {
    std::vector<ReadMessage> messages;
    Counters counters;
    std::string trouble;
    std::string description;
    std::uint64_t packets = 0;
};

/// Throws what the feed throws.
inline ReadTrace read_trace(const Buffer& file) {
    const ScratchFile scratch(file);
    Reader reader(scratch.path());
    ReadTrace out;
    for (Query query; reader.next(query);) {
        out.messages.push_back({.time = query.time,
                                .source = query.source.text(),
                                .destination = query.destination.text(),
                                .transport = query.transport,
                                .response = query.is_response(),
                                .bytes = {query.message.begin(), query.message.end()}});
    }
    out.counters = reader.counters();
    out.trouble = reader.trouble();
    out.description = reader.description();
    out.packets = reader.packets();
    return out;
}

/// What the feed says when it refuses the file; empty where it does not.
inline std::string refusal(const Buffer& file) {
    try {
        read_trace(file);
    } catch (const TraceError& error) {
        return error.what();
    }
    return {};
}

} // namespace reprise::trace::test
