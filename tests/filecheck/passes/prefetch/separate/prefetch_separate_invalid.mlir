// RUN: gathernest-opt %s -p "canonical,lower-to-nest,fold-bounds,erase-sizes,drop-unit-loops,parallelize-loops{loops=indices},prefetch{what=rows loop=bag separate=indices}" --verify-diagnostics

// expected-error@unknown {{indices is parallel, so separate names a loop in it}}
func.func @gather(%data: tensor<900x64xf32>, %indices: tensor<70x9xi64>) -> tensor<70x64xf32> {
  %r = gather.gather_reduce %data, %indices bounds zero : tensor<900x64xf32>, tensor<70x9xi64> -> tensor<70x64xf32>
  func.return %r : tensor<70x64xf32>
}
