#pragma once
#include <functional>
#include <string>

namespace reprise::proxy {

/// The file of --stats: rewritten whole each time.
class StatisticsFile {
public:
    using Text = std::function<std::string()>;

    /// `path` is empty where none is wanted; `text` makes what is written.
    StatisticsFile(std::string path, Text text);

    /// Throws SystemError.
    void write() const;

    /// No run ends for its statistics while it carries packets. Told once, until they can be
    /// written again.
    void write_or_warn();

private:
    std::string path_;
    Text text_;
    bool unwritten_ = false; ///< the last one could not be written
};

} // namespace reprise::proxy
