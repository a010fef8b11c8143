// RUN: gathernest-opt %s -p "nest,erase-sizes,drop-unit-loops,parallelize-loops{loops=batch,outer},prefetch{what=rows loop=batch},lower-nest-to-loops"

// A prefetch between two parallel loops runs in each iteration of both, which changes no value.
// CHECK: scf.parallel (%b, %o)
// CHECK: memref.prefetch %data
// CHECK: scf.for
func.func @gather(%data: tensor<30x2x9x40xf32>, %indices: tensor<30x1xui64>) -> tensor<30x2x1x40xf32> {
  %r = gather.gather %data, %indices axis 2 batch_dims 1 bounds wrap : tensor<30x2x9x40xf32>, tensor<30x1xui64> -> tensor<30x2x1x40xf32>
  func.return %r : tensor<30x2x1x40xf32>
}
