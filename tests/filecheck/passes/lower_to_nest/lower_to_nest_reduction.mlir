// RUN: gathernest-opt %s -p lower-to-nest

// CHECK: gather.loop clear_indices(%i) = %{{.*}} to %n_indices step
// CHECK-NEXT: gather.loop clear_inner(%j)
// CHECK-NEXT: memref.store %nothing, %out[%i, %j]
// CHECK: gather.loop indices(%i_1) = %{{.*}} to %n_indices step
// CHECK-NEXT: gather.loop ordered bag(%k) = %{{.*}} to %n_bag step
// CHECK-NEXT: gather.loop inner(%j_1)
// CHECK-NEXT: %index = memref.load %indices[%i_1, %k]
// CHECK-NEXT: %position, %valid = gather.resolve %index within %n_axis bounds zero : i64
// CHECK-NEXT: %element = gather.masked_load %data[%position, %j_1], %valid
// CHECK-NEXT: gather.accumulate %element, %out[%i_1, %j_1] if %valid
func.func @gather(%data: memref<5x12xf32>, %indices: memref<7x3xi64>, %out: memref<7x12xf32>) {
  gather.gather_reduce %data, %indices into %out bounds zero : memref<5x12xf32>, memref<7x3xi64>, memref<7x12xf32>
  func.return
}

// The first element of a bag is taken whatever is in out.
// CHECK-LABEL: func.func @max
// CHECK: gather.loop ordered bag(%k)
// CHECK-NEXT: %first = arith.cmpi eq, %k, %{{.*}} : index
// CHECK: gather.accumulate %element, %out[%i_1, %j_1] if %valid max %first
func.func @max(%data: memref<5x12xf32>, %indices: memref<7x3xi64>, %out: memref<7x12xf32>) {
  gather.gather_max %data, %indices into %out bounds zero : memref<5x12xf32>, memref<7x3xi64>, memref<7x12xf32>
  func.return
}

// The weight stands beside its index; bytes become floats.
// CHECK-LABEL: func.func @weighted
// CHECK: %weight_bits = memref.load %indices[%i_1, %k, %{{.*}}]
// CHECK-NEXT: %weight = arith.bitcast %weight_bits : i32 to f32
// CHECK-NEXT: %bias_bits = memref.load %indices[%i_1, %k, %{{.*}}]
// CHECK-NEXT: %bias = arith.bitcast %bias_bits : i32 to f32
// CHECK: %index = memref.load %indices[%i_1, %k, %{{.*}}]
// CHECK: %wide = arith.sitofp %element : i8 to f32
// CHECK-NEXT: %weighted = arith.mulf %wide, %weight : f32
// CHECK-NEXT: %weighted_1 = arith.addf %weighted, %bias : f32
// CHECK-NEXT: gather.accumulate %weighted_1, %out[%i_1, %j_1] if %valid
func.func @weighted(%data: memref<5x12xi8>, %indices: memref<7x3x3xi32>, %out: memref<7x12xf32>) {
  gather.gather_weighted %data, %indices into %out bounds zero : memref<5x12xi8>, memref<7x3x3xi32>, memref<7x12xf32>
  func.return
}

// Sums are divided behind the loop over the bag, by the number of indices that a loop before it counts.
// CHECK-LABEL: func.func @mean
// CHECK: gather.loop clear_indices
// CHECK: gather.loop indices(%i_1)
// CHECK-NEXT: %count = gather.loop count_bag(%k) = %{{.*}} to %n_bag step %{{.*}} sum
// CHECK-NEXT: %index = memref.load %indices[%i_1, %k]
// CHECK-NEXT: %position, %valid = gather.resolve %index within %n_axis bounds zero
// CHECK-NEXT: %one = arith.extui %valid : i1 to i64
// CHECK-NEXT: gather.yield %one
// CHECK: %counted = arith.maxsi %count, %{{.*}} : i64
// CHECK-NEXT: %divisor = arith.sitofp %counted : i64 to f32
// CHECK-NEXT: gather.loop ordered bag(%k_1)
// CHECK: gather.accumulate
// CHECK: gather.loop scale_inner(%j_2) = %{{.*}} to %n_inner step
// CHECK-NEXT: %total = memref.load %out[%i_1, %j_2]
// CHECK-NEXT: %mean = arith.divf %total, %divisor : f32
// CHECK-NEXT: memref.store %mean, %out[%i_1, %j_2]
func.func @mean(%data: memref<5x12xf32>, %indices: memref<7x3xi64>, %out: memref<7x12xf32>) {
  gather.gather_mean %data, %indices into %out bounds zero : memref<5x12xf32>, memref<7x3xi64>, memref<7x12xf32>
  func.return
}

// Where no index is left out, it is the size of a bag.
// CHECK-LABEL: func.func @whole
// CHECK: %count = arith.index_cast %n_bag : index to i64
// CHECK-NOT: count_bag
func.func @whole(%data: memref<5x12xf32>, %indices: memref<7x3xi64>, %out: memref<7x12xf32>) {
  gather.gather_mean %data, %indices into %out bounds clip : memref<5x12xf32>, memref<7x3xi64>, memref<7x12xf32>
  func.return
}
