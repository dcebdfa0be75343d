#pragma once
#include <filesystem>
#include <string>
#include <string_view>

namespace reprise::zonebuilder {

/// The folder of -o, made if need be. The report, which is written last, says that it is whole.
class OutputFolder {
public:
    /// Removes a former `report`, and beside one the files that end in `ending`, if that is given.
    /// Throws Error.
    explicit OutputFolder(std::filesystem::path path, const std::string& report,
                          std::string_view ending = {});

    /// Whole or not at all: a file that could not be written to its end is not there. Throws Error.
    void write(const std::string& name, std::string_view text) const;

private:
    std::filesystem::path path_;
};

} // namespace reprise::zonebuilder
