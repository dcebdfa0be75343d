#pragma once
// Which keys come most often, in bounded memory: exact while there are few, with a known error
// beyond.
//
// At most 65,536 keys are counted. When there are more, the 32,768th greatest count is taken off
// every count and the keys at zero are forgotten. Every such step takes it off at least 32,768
// keys, so no count is ever more than (keys added) / 32,768 too low (Misra and Gries 1982; in steps
// as by Anderson et al. 2017). Memory: about 110 bytes a key and its text.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace reprise::mutator {

class TopKeys {
public:
    struct Entry {
        std::string key;
        std::uint64_t count = 0; ///< at least; at most error() more
    };

    explicit TopKeys(size_t kept = 32'768) : kept_(kept) { counts_.reserve(2 * kept); }

    void add(std::string_view key);

    /// The greatest counts, ties by key.
    [[nodiscard]] std::vector<Entry> top(size_t most) const;

    /// 0 while counts are exact.
    [[nodiscard]] std::uint64_t error() const { return error_; }

    /// Distinct keys; while error() is not 0, those not forgotten.
    [[nodiscard]] size_t size() const { return counts_.size(); }

private:
    struct Hash {
        using is_transparent = void;

        size_t operator()(std::string_view key) const noexcept {
            return std::hash<std::string_view>{}(key);
        }
    };

    void purge();

    size_t kept_;
    std::unordered_map<std::string, std::uint64_t, Hash, std::equal_to<>> counts_;
    std::uint64_t error_ = 0;
};

/// Counts the names of questions, without regard to case (RFC 4343). Keys are names in wire form.
class TopNames {
public:
    void add(std::string_view wire_name);

    [[nodiscard]] const TopKeys& keys() const { return keys_; }

private:
    TopKeys keys_;
    std::string lower_;
};

} // namespace reprise::mutator
